package cli

import "testing"

func TestErrors(t *testing.T) { offline(t).script("errors") }

package cli

import "testing"

func TestGroup(t *testing.T) { start(t).script("group") }

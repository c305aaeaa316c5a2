package cli

import "testing"

func TestConsume(t *testing.T) { start(t).script("consume") }

package cli

import "testing"

func TestProduce(t *testing.T) { start(t).script("produce") }

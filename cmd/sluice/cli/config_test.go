package cli

import "testing"

func TestConfig(t *testing.T) { start(t).script("config") }

func TestConfigOffline(t *testing.T) { offline(t).script("config_offline") }

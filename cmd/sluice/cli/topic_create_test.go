package cli

import "testing"

func TestTopicCreate(t *testing.T) { start(t).script("topic_create") }

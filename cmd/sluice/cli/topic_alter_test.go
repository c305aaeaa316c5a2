package cli

import "testing"

func TestTopicAlter(t *testing.T) { start(t).script("topic_alter") }

package cli

import "testing"

func TestTopicDelete(t *testing.T) { start(t).script("topic_delete") }

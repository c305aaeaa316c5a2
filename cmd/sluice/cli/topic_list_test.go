package cli

import "testing"

func TestTopicList(t *testing.T) { start(t).script("topic_list") }

package cli

import "testing"

func TestTopicDescribe(t *testing.T) { start(t).script("topic_describe") }

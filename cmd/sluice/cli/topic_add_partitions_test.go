package cli

import "testing"

func TestTopicAddPartitions(t *testing.T) { start(t).script("topic_add_partitions") }

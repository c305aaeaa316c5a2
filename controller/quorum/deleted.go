package quorum

import (
	"fmt"

	"github.com/sluicelog/sluice/controller/meta"
	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/batch"
)

// Deleted gives the topics whose deletion stands in the metadata log behind the newest snapshot. It
// reads that part of the log anew: it is for who found files of a topic that the image does not have.
// They can be there as a crash can come between the commit of a deletion and its subscribers, who see
// it before a snapshot takes the place of its record. A broker of several asks once it is enrolled.
func (c *Controller) Deleted() (map[kafkaproto.TopicID]bool, error) {
	deleted := make(map[kafkaproto.TopicID]bool)
	var log rangeReader = c.log
	if c.rep != nil {
		log = c.rep
	}
	img, _, err := loadSnapshot(c.o.FS, c.cut.Dir(), func(string, error) {}) // Open told of damage
	if err != nil {
		return nil, err
	}
	end := kafkaproto.Offset(c.Image().Version())
	for at := kafkaproto.Offset(img.Version()); at < end; at = kafkaproto.Offset(img.Version()) {
		buf, err := readRange(log, at, end)
		if err != nil {
			return nil, fmt.Errorf("metadata log %s from offset %d on: %w", c.cut.Dir(), at, err)
		}
		_, err = batch.Scan(buf, func(_ int, b batch.Batch) (bool, error) {
			before := img
			if img, err = applyBatches(img, b); err != nil {
				return false, err
			}
			for _, change := range meta.TopicChanges(before, img) {
				if change.New == nil {
					deleted[change.Old.ID] = true
				}
			}
			return true, nil
		})
		if err != nil {
			return nil, fmt.Errorf("metadata log %s from offset %d on: %w", c.cut.Dir(), at, err)
		}
		if kafkaproto.Offset(img.Version()) <= at {
			return nil, kafkaproto.Corruptf("metadata log %s does not go on at offset %d", c.cut.Dir(), at)
		}
	}
	return deleted, nil
}

package cli

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/sluicelog/sluice/kafkaproto"
)

// topicCreate is what the flags of topic create say.
type topicCreate struct {
	form       string
	partitions int32
	replicas   int16
	settings   []string
	dryRun     bool
	ifMissing  bool
}

func (e *env) topicCreateCommand() *cobra.Command {
	var o topicCreate
	cmd := &cobra.Command{
		Use:   "create TOPIC...",
		Short: "Make topics",
		Example: `  sluice topic create orders
  sluice topic create orders payments -p 6
  sluice topic create state --config cleanup.policy=compact
  sluice topic create fast --config sluice.durability=relaxed`,
		Args:        e.minArgs(1, "the name of a topic"),
		Annotations: map[string]string{clientVerb: "yes"},
		RunE:        func(_ *cobra.Command, args []string) error { return e.topicCreate(o, args) },
	}
	outputFlag(cmd, &o.form, "")
	f := cmd.Flags()
	f.Int32VarP(&o.partitions, "partitions", "p", -1, "how many partitions (default num.partitions of the broker)")
	f.Int16VarP(&o.replicas, "replicas", "r", -1, "how many replicas (default default.replication.factor)")
	f.StringArrayVarP(&o.settings, "config", "c", nil, "a setting of the topic, as key=value; may be repeated")
	f.BoolVar(&o.dryRun, "dry-run", false, "only check whether it could be made")
	f.BoolVar(&o.ifMissing, "if-not-exists", false, "a topic that exists is no error")
	_ = cmd.RegisterFlagCompletionFunc("config", completeTopicKeys)
	return cmd
}

func (e *env) topicCreate(o topicCreate, names []string) error {
	pairs, err := keyValues("--config", o.settings)
	if err != nil {
		return err
	}
	settings := make(map[string]*string)
	for _, p := range pairs {
		if err := knownTopicKey(p[0]); err != nil {
			return err
		}
		settings[p[0]] = &p[1]
	}
	return e.admin(func(ctx context.Context, c *client) error {
		create := c.adm.CreateTopics
		if o.dryRun {
			create = c.adm.ValidateCreateTopics
		}
		res, err := create(ctx, o.partitions, o.replicas, settings, names...)
		if err != nil {
			return err
		}
		var made []topicRow
		var errs []error
		for _, name := range slices.Sorted(maps.Keys(res)) {
			r := res[name]
			switch {
			case r.Err == nil:
				e.saidCreated(r, o.dryRun)
				made = append(made, topicRow{
					Name: r.Topic, ID: kafkaproto.TopicID(r.ID).String(), Partitions: int(r.NumPartitions),
					Replicas: int(r.ReplicationFactor),
				})
			case errors.Is(r.Err, kerr.TopicAlreadyExists) && o.ifMissing:
				e.say("topic %s exists already", r.Topic)
			case errors.Is(r.Err, kerr.TopicAlreadyExists):
				errs = append(errs, failf(exitConflict, "topic %q exists already; look at it with "+
					"\"sluice topic describe %s\", or pass --if-not-exists", r.Topic, r.Topic))
			default:
				errs = append(errs, kafkaf("create topic "+r.Topic, r.Err, r.ErrMessage))
			}
		}
		return errors.Join(append(errs, show(e, o.form, topicListing(), made))...)
	})
}

func (e *env) saidCreated(r kadm.CreateTopicResponse, dryRun bool) {
	verb := "created"
	if dryRun {
		verb = "could create"
	}
	e.say("%s topic %s: %s, %s", verb, r.Topic, count(int64(r.NumPartitions), "partition"),
		count(int64(r.ReplicationFactor), "replica"))
}

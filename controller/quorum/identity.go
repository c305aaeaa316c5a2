package quorum

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/sluicelog/sluice/controller/config"
	"github.com/sluicelog/sluice/controller/meta"
	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/log/vfs"
)

// propertiesFile is Kafka's name for the file that says whose data directory this is.
const propertiesFile = "meta.properties"

// maxPropertiesFile bounds what is read of it, in bytes.
const maxPropertiesFile = 64 << 10

// Identity is what a data directory is, for good (Q6).
type Identity struct {
	ClusterID string
	NodeID    kafkaproto.NodeID
	// Directory is the uuid of the data directory, in Kafka's spelling.
	Directory string
}

// wanted is what the configuration asks for; nil or "" means anything.
type wanted struct {
	clusterID, clusterFrom string
	nodeID                 *kafkaproto.NodeID
	nodeFrom               string
}

func wantedBy(s *config.Static) wanted {
	var w wanted
	w.clusterID, w.clusterFrom, _ = s.Lookup("sluice.cluster.id")
	if id, ok := s.NodeOf(); ok {
		w.nodeID = &id
		key := "node.id"
		if _, _, set := s.Lookup(key); !set {
			key = "broker.id"
		}
		_, layer, _ := s.Lookup(key)
		w.nodeFrom = key + " (" + layer + ")"
	}
	return w
}

// readIdentity reads meta.properties; nil when there is none.
func readIdentity(fsys vfs.FS, dir string) (*Identity, error) {
	name := path.Join(dir, propertiesFile)
	data, err := vfs.ReadFile(fsys, name, maxPropertiesFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	id, err := parseIdentity(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return id, nil
}

func parseIdentity(data []byte) (*Identity, error) {
	values, err := config.ParseProperties(bytes.NewReader(data))
	if err != nil {
		return nil, kafkaproto.MarkCorrupt(err)
	}
	switch version := values["version"]; version {
	case "1":
	case "":
		return nil, kafkaproto.Corruptf("there is no version")
	default:
		return nil, fmt.Errorf("version %.20q, and this release knows version 1: %w", version,
			meta.ErrNewerRelease)
	}
	for _, key := range []string{"cluster.id", "directory.id"} {
		if _, err := kafkaproto.ParseTopicID(values[key]); err != nil {
			return nil, kafkaproto.Corruptf("%s %.40q is not 22 characters of URL-safe base64", key,
				values[key])
		}
	}
	node, err := strconv.ParseInt(values["node.id"], 10, 32)
	if err != nil || node < 0 {
		return nil, kafkaproto.Corruptf("node.id is %.20q", values["node.id"])
	}
	return &Identity{
		ClusterID: values["cluster.id"], NodeID: kafkaproto.NodeID(node),
		Directory: values["directory.id"],
	}, nil
}

// bytes is the file's content, in a fixed order.
func (id Identity) bytes() []byte {
	values := map[string]string{
		"version": "1", "cluster.id": id.ClusterID, "node.id": strconv.Itoa(int(id.NodeID)),
		"directory.id": id.Directory,
	}
	var b strings.Builder
	b.WriteString("# Whose data directory this is. Not to be edited.\n")
	for _, key := range slices.Sorted(maps.Keys(values)) {
		fmt.Fprintf(&b, "%s=%s\n", key, values[key])
	}
	return []byte(b.String())
}

// newIdentity draws what the configuration leaves open. A node alone is number 1.
func newIdentity(w wanted, random io.Reader) (Identity, error) {
	id := Identity{ClusterID: w.clusterID, NodeID: 1}
	if w.nodeID != nil {
		id.NodeID = *w.nodeID
	}
	for _, field := range []*string{&id.ClusterID, &id.Directory} {
		if *field != "" {
			continue
		}
		drawn, err := kafkaproto.NewTopicID(random)
		if err != nil {
			return id, err
		}
		*field = drawn.String()
	}
	return id, nil
}

// lostIdentity finds out of the metadata whose directory it is whose meta.properties is gone: that
// of the only broker there is. Nil when the metadata does not say.
func lostIdentity(img *meta.Image) *Identity {
	nodes := img.Nodes()
	if img.ClusterID() == "" || len(nodes) != 1 || nodes[0].Directory == "" {
		return nil
	}
	return &Identity{
		ClusterID: img.ClusterID(), NodeID: nodes[0].ID, Directory: nodes[0].Directory,
	}
}

// check refuses a configuration that asks for another identity (Q6).
func (id Identity) check(dir string, w wanted, img *meta.Image) error {
	if w.clusterID != "" && w.clusterID != id.ClusterID {
		return fmt.Errorf("data directory %s belongs to cluster %s, but sluice.cluster.id (%s) asks "+
			"for %s: remove the setting to go on with %s, or give log.dirs another directory to "+
			"begin a new cluster", dir, id.ClusterID, w.clusterFrom, w.clusterID, id.ClusterID)
	}
	if w.nodeID != nil && *w.nodeID != id.NodeID {
		return fmt.Errorf("data directory %s belongs to node %d, but %s asks for %d: set it to %d, "+
			"or give this node a log.dirs of its own", dir, id.NodeID, w.nodeFrom, *w.nodeID, id.NodeID)
	}
	if c := img.ClusterID(); c != "" && c != id.ClusterID {
		return fmt.Errorf("%s says cluster %s, but the metadata beside it is of cluster %s: one of "+
			"them was copied from elsewhere; remove the file to take its ids from the metadata",
			path.Join(dir, propertiesFile), id.ClusterID, c)
	}
	if n := img.Node(id.NodeID); n != nil && n.Directory != id.Directory {
		return fmt.Errorf("%s says directory %s, but node %d is registered with directory %s: one of "+
			"them was copied from elsewhere; remove the file to take its ids from the metadata",
			path.Join(dir, propertiesFile), id.Directory, id.NodeID, n.Directory)
	}
	return nil
}

// Check refuses a data directory that belongs to another cluster or node than the configuration
// asks for, before anything in it is opened. A directory without meta.properties passes.
func Check(fsys vfs.FS, dir string, s *config.Static) error {
	id, err := readIdentity(fsys, dir)
	if err != nil || id == nil {
		return err
	}
	return id.check(dir, wantedBy(s), meta.Empty())
}

// settleIdentity reads, restores or makes meta.properties.
func settleIdentity(o Options, w wanted, img *meta.Image) (Identity, error) {
	found, err := readIdentity(o.FS, o.Dir)
	if err != nil {
		return Identity{}, err
	}
	write := found == nil
	if found == nil {
		found = lostIdentity(img)
	}
	if found == nil {
		if img.Version() > 0 {
			return Identity{}, fmt.Errorf("%s is missing, and the metadata beside it knows %d brokers: "+
				"restore the file of this node", path.Join(o.Dir, propertiesFile), len(img.Nodes()))
		}
		drawn, err := newIdentity(w, o.Random)
		if err != nil {
			return Identity{}, err
		}
		found = &drawn
	}
	if err := found.check(o.Dir, w, img); err != nil {
		return Identity{}, err
	}
	if write {
		err = vfs.WriteFileAtomic(o.FS, path.Join(o.Dir, propertiesFile), found.bytes())
	}
	return *found, err
}

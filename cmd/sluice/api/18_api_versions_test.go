package api

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func versionsRequest() *kmsg.ApiVersionsRequest {
	req := kmsg.NewPtrApiVersionsRequest()
	req.ClientSoftwareName, req.ClientSoftwareVersion = "a-client", "1.0"
	return req
}

// TestRow67ApiVersions lists the table, in answers whose header never has tags.
func TestRow67ApiVersions(t *testing.T) {
	r := newRig(t, rigOptions{})
	c := r.dial()
	eachVersion(t, kmsg.ApiVersions, func(t *testing.T, v int16) {
		req := versionsRequest()
		req.SetVersion(v)
		c.send(req)
		frame, err := c.frame()
		if err != nil {
			t.Fatal(err)
		}
		if frame[4] != 0 || frame[5] != 0 { // right behind the correlation id: the error code
			t.Fatalf("the answer begins %x", frame[:8])
		}
		resp := c.decode(req, frame).(*kmsg.ApiVersionsResponse)
		c.owed = nil
		if len(resp.ApiKeys) != len(Table) {
			t.Fatalf("%d keys", len(resp.ApiKeys))
		}
		for i, k := range resp.ApiKeys {
			if row := Table[i]; k.ApiKey != row.Key || k.MinVersion != row.Shown || k.MaxVersion != row.Max {
				t.Errorf("key %+v of %+v", k, row)
			}
		}
		for _, f := range resp.SupportedFeatures {
			if v < 4 && f.MinVersion == 0 {
				t.Errorf("feature %+v breaks old Java clients (KAFKA-17492)", f)
			}
		}
		for _, f := range resp.FinalizedFeatures {
			if f.MaxVersionLevel != f.MinVersionLevel || f.MaxVersionLevel == 0 {
				t.Errorf("finalized %+v", f)
			}
		}
		if v >= 3 && (len(resp.SupportedFeatures) == 0 || len(resp.FinalizedFeatures) == 0 || resp.FinalizedFeaturesEpoch < 0) {
			t.Errorf("features: %+v", resp)
		}
	})
}

// TestRow67UnknownKeys closes for keys that kmsg does not know, and for versions that it would take.
func TestRow67UnknownKeys(t *testing.T) {
	r := newRig(t, rigOptions{})
	for key := int16(95); key < 200; key += 35 {
		if kmsg.RequestForKey(key) != nil {
			t.Fatalf("kmsg knows key %d", key)
		}
		c := r.dial()
		c.write([]byte{0, 0, 0, 11, byte(key >> 8), byte(key), 0, 0, 0, 0, 0, 1, 0xff, 0xff, 0})
		c.wantClosed("unknown key")
	}
	req := kmsg.NewPtrMetadataRequest()
	req.SetVersion(99) // is taken
	c := r.dial()
	c.send(req)
	c.wantClosed("version 99")
}

// TestRow67HeaderTags steps over the tags of flexible request headers, and takes none in others.
func TestRow67HeaderTags(t *testing.T) {
	r := newRig(t, rigOptions{})
	c := r.dial()
	for _, x := range []struct {
		req     kmsg.Request
		version int16
		tags    []byte
	}{
		{kmsg.NewPtrMetadataRequest(), 12, []byte{2, 0, 3, 'a', 'b', 'c', 9, 0}},
		{versionsRequest(), 3, []byte{1, 0, 1, 'x'}},
		{kmsg.NewPtrMetadataRequest(), 8, nil},
	} {
		x.req.SetVersion(x.version)
		head := []byte{0, byte(x.req.Key()), 0, byte(x.version), 0, 0, 0, 9, 0, 1, 'c'}
		body := x.req.AppendTo(append(head, x.tags...))
		c.owed = []int32{9}
		c.write(append([]byte{0, 0, 0, byte(len(body))}, body...))
		c.receive(x.req)
	}
}

// TestApiVersionsTooNew answers a version that is not known in the format of version 0, with the one
// entry that tells which are (KIP-511); the body is not read.
func TestApiVersionsTooNew(t *testing.T) {
	c := newRig(t, rigOptions{}).dial()
	for _, version := range []int16{6, 100, 32767, -1} {
		c.owed = []int32{3}
		c.write([]byte{0, 0, 0, 13, 0, 18, byte(version >> 8), byte(version), 0, 0, 0, 3, 0xff, 0xff, 0xfa, 0xfb, 0xfc})
		resp := c.receive(kmsg.NewPtrApiVersionsRequest()).(*kmsg.ApiVersionsResponse)
		wantCode(t, "too new", resp.ErrorCode, kerr.UnsupportedVersion)
		if len(resp.ApiKeys) != 1 || resp.ApiKeys[0].ApiKey != 18 || resp.ApiKeys[0].MinVersion != 0 || resp.ApiKeys[0].MaxVersion != 5 {
			t.Errorf("version %d: %+v", version, resp.ApiKeys)
		}
	}
	ask[*kmsg.ApiVersionsResponse](c, versionsRequest(), 5)
}

// TestApiVersionsRefusals wants a name and a version of the client's software from version 3 on, and
// from version 5 on the cluster and node that it expects, both or neither (KIP-1242).
func TestApiVersionsRefusals(t *testing.T) {
	r := newRig(t, rigOptions{})
	c := r.dial()
	for name, ok := range map[string]bool{
		"a": true, "a.b-c": true, "A1": true, "": false, "-a": false, "a-": false, "a b": false, "a/b": false, "ä": false, "a\n": false,
	} {
		for v := int16(0); v <= 5; v++ {
			var want *kerr.Error
			if !ok && v >= 3 {
				want = kerr.InvalidRequest
			}
			for _, field := range []func(*kmsg.ApiVersionsRequest) *string{
				func(q *kmsg.ApiVersionsRequest) *string { return &q.ClientSoftwareName },
				func(q *kmsg.ApiVersionsRequest) *string { return &q.ClientSoftwareVersion },
			} {
				req := versionsRequest()
				*field(req) = name
				resp := ask[*kmsg.ApiVersionsResponse](c, req, v)
				wantCode(t, name, resp.ErrorCode, want)
				if (len(resp.ApiKeys) == 0) != (want != nil) {
					t.Errorf("%q in version %d: %d keys", name, v, len(resp.ApiKeys))
				}
			}
		}
	}
	ours, other := r.broker.ClusterID, "another"
	for _, x := range []struct {
		cluster *string
		node    int32
		want    *kerr.Error
	}{
		{nil, -1, nil}, {&ours, 7, nil}, {&ours, -1, kerr.InvalidRequest}, {nil, 7, kerr.InvalidRequest},
		{&other, 7, kerr.RebootstrapRequired}, {&ours, 8, kerr.RebootstrapRequired},
	} {
		req := versionsRequest()
		req.ClusterID, req.NodeID = x.cluster, x.node
		wantCode(t, "cluster and node", ask[*kmsg.ApiVersionsResponse](c, req, 5).ErrorCode, x.want)
		wantCode(t, "version 4", ask[*kmsg.ApiVersionsResponse](c, req, 4).ErrorCode, nil)
	}
}

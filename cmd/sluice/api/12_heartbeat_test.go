package api

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestHeartbeat(t *testing.T) {
	c := newGroupRig(t).dial()
	id, generation := c.member("g")
	eachVersion(t, kmsg.Heartbeat, func(t *testing.T, v int16) {
		for _, x := range []struct {
			group, member string
			generation    int32
			want          *kerr.Error
		}{
			{"g", id, generation, nil},
			{"g", id, generation + 1, kerr.IllegalGeneration},
			{"g", "stranger", generation, kerr.UnknownMemberID},
			{"nobody", id, generation, kerr.UnknownMemberID},
			{"", id, generation, kerr.InvalidGroupID},
		} {
			req := kmsg.NewPtrHeartbeatRequest()
			req.Group, req.MemberID, req.Generation = x.group, x.member, x.generation
			resp := ask[*kmsg.HeartbeatResponse](c, req, v)
			wantCode(t, x.group+" "+x.member, resp.ErrorCode, x.want)
		}
	})
}

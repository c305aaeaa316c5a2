package api

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestDescribeCluster names this broker in every version, authorized operations when asked (row 41).
func TestDescribeCluster(t *testing.T) {
	r := newRig(t, rigOptions{config: map[string]string{"broker.rack": "r1"}})
	c := r.dial()
	eachVersion(t, kmsg.DescribeCluster, func(t *testing.T, v int16) {
		for _, want := range []int32{notAsked, 0x1fa0} {
			req := kmsg.NewPtrDescribeClusterRequest()
			req.EndpointType, req.IncludeClusterAuthorizedOperations = 1, want != notAsked
			resp := ask[*kmsg.DescribeClusterResponse](c, req, v)
			if resp.ErrorCode != 0 || resp.ClusterID != r.broker.ClusterID || resp.ClusterID == "" ||
				resp.ControllerID != 7 || resp.ClusterAuthorizedOperations != want {
				t.Errorf("got %+v", resp)
			}
			if len(resp.Brokers) != 1 || resp.Brokers[0].NodeID != 7 || resp.Brokers[0].Port != 9092 ||
				resp.Brokers[0].Host != "broker.example" || *resp.Brokers[0].Rack != "r1" {
				t.Errorf("brokers %+v", resp.Brokers)
			}
		}
	})
}

// TestDescribeClusterEndpointType refuses what a broker's listener does not serve (KIP-919).
func TestDescribeClusterEndpointType(t *testing.T) {
	c := newRig(t, rigOptions{}).dial()
	for v := int16(1); v <= 2; v++ {
		for kind, want := range map[int8]*kerr.Error{2: kerr.MismatchedEndpointType, 9: kerr.UnsupportedEndpointType} {
			req := kmsg.NewPtrDescribeClusterRequest()
			req.EndpointType = kind
			resp := ask[*kmsg.DescribeClusterResponse](c, req, v)
			wantCode(t, "endpoint type", resp.ErrorCode, want)
			if resp.ErrorMessage == nil || len(resp.Brokers) != 0 {
				t.Errorf("version %d, type %d: %+v", v, kind, resp)
			}
		}
	}
}

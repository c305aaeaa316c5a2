package api

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicelog/sluice/kafkaproto"
)

// describeCluster answers key 60, versions 0 to 2: the brokers and the cluster's id.
//
// v1 brings the endpoint type (1 brokers, 2 controllers; a broker's listener serves brokers only),
// v2 fenced brokers. ACL: Describe Cluster.
func (b *Broker) describeCluster(r *Request) {
	req := r.Body.(*kmsg.DescribeClusterRequest)
	resp := kmsg.NewPtrDescribeClusterResponse()
	resp.ClusterAuthorizedOperations = notAsked
	resp.ControllerID = -1
	if r.Version >= 1 {
		var err error
		switch req.EndpointType {
		case 1:
		case 2:
			err = kafkaproto.Faultf(kerr.MismatchedEndpointType,
				"the request was sent to an endpoint of the wrong type: brokers are here")
		default:
			err = kafkaproto.Faultf(kerr.UnsupportedEndpointType,
				"endpoint type %d is not known", req.EndpointType)
		}
		if err != nil {
			resp.ErrorCode, resp.ErrorMessage = kafkaproto.Code(err), kafkaproto.Message(err)
			r.Respond(resp)
			return
		}
	}
	resp.ClusterID, resp.ControllerID = b.ClusterID, int32(b.NodeID)
	if req.IncludeClusterAuthorizedOperations {
		resp.ClusterAuthorizedOperations = clusterOperations
	}
	for _, n := range b.nodes(r.Conn) {
		cb := kmsg.NewDescribeClusterResponseBroker()
		cb.NodeID, cb.Host, cb.Port, cb.Rack = n.id, n.host, n.port, n.rack
		resp.Brokers = append(resp.Brokers, cb)
	}
	r.Respond(resp)
}

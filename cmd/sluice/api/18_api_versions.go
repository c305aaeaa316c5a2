package api

import (
	"regexp"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicelog/sluice/controller/meta"
)

// softwareName is what a client may call itself (KIP-511).
var softwareName = regexp.MustCompile(`^[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?$`)

// apiVersions answers key 18, versions 0 to 5: the served APIs and the features.
//
// v3 brings the client's software name and version, v5 the cluster and node it believes to talk to
// (KIP-1242). Features with a minimum of 0 are left out below v4 (KAFKA-17492). No ACL: it is
// asked before authentication.
func (b *Broker) apiVersions(r *Request) {
	req := r.Body.(*kmsg.ApiVersionsRequest)
	resp := req.ResponseKind().(*kmsg.ApiVersionsResponse)
	if r.Version >= 3 {
		if !softwareName.MatchString(req.ClientSoftwareName) ||
			!softwareName.MatchString(req.ClientSoftwareVersion) {
			resp.ErrorCode = kerr.InvalidRequest.Code
			r.Respond(resp)
			return
		}
		info := r.Info()
		info.SoftwareName = req.ClientSoftwareName
		info.SoftwareVersion = req.ClientSoftwareVersion
	}
	if r.Version >= 5 {
		if code := b.wrongCluster(req); code != 0 {
			resp.ErrorCode = code
			r.Respond(resp)
			return
		}
	}
	resp.ApiKeys = make([]kmsg.ApiVersionsResponseApiKey, 0, len(b.rows))
	for i := range b.rows {
		k := kmsg.NewApiVersionsResponseApiKey()
		k.ApiKey, k.MinVersion, k.MaxVersion = b.rows[i].Key, b.rows[i].Shown, b.rows[i].Max
		resp.ApiKeys = append(resp.ApiKeys, k)
	}
	b.features(resp)
	r.Respond(resp)
}

// wrongCluster compares the cluster and node that a client expects with ours: both or neither
// must be given.
func (b *Broker) wrongCluster(req *kmsg.ApiVersionsRequest) int16 {
	hasCluster, hasNode := req.ClusterID != nil, req.NodeID != -1
	switch {
	case hasCluster != hasNode:
		return kerr.InvalidRequest.Code
	case !hasCluster:
		return 0
	case *req.ClusterID != b.ClusterID || req.NodeID != int32(b.NodeID):
		return kerr.RebootstrapRequired.Code
	}
	return 0
}

// features lists supported and finalized features (KIP-584).
func (b *Broker) features(resp *kmsg.ApiVersionsResponse) {
	img := b.Controller.Image()
	for _, f := range meta.SupportedFeatures() {
		if f.Min > 0 || resp.Version >= 4 {
			s := kmsg.NewApiVersionsResponseSupportedFeature()
			s.Name, s.MinVersion, s.MaxVersion = f.Name, f.Min, f.Max
			resp.SupportedFeatures = append(resp.SupportedFeatures, s)
		}
	}
	for _, f := range img.Features() {
		l := kmsg.NewApiVersionsResponseFinalizedFeature()
		l.Name, l.MinVersionLevel, l.MaxVersionLevel = f.Name, f.Level, f.Level
		resp.FinalizedFeatures = append(resp.FinalizedFeatures, l)
	}
	resp.FinalizedFeaturesEpoch = img.FeaturesEpoch()
}

// unsupportedApiVersions answers a version that is not known in the format of version 0, with the
// one entry that tells which versions are (KIP-511). The body is not looked at.
func (b *Broker) unsupportedApiVersions(r *Request) {
	resp := kmsg.NewPtrApiVersionsResponse()
	resp.ErrorCode = kerr.UnsupportedVersion.Code
	k := kmsg.NewApiVersionsResponseApiKey()
	k.ApiKey, k.MinVersion, k.MaxVersion = r.row.Key, r.row.Min, r.row.Max
	resp.ApiKeys = append(resp.ApiKeys, k)
	r.Version, r.flexible = 0, false
	r.Respond(resp)
}

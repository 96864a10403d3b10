package grpcedge

import (
	"fmt"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

// metadataOf returns the dynamic metadata of a response: the request, and under "metadata" the metadata of the limits
// that have admitted it. The names are those of envoyproxy/ratelimit.
func metadataOf(req *pb.RateLimitRequest, answers []answer) *structpb.Struct {
	descriptors := &structpb.ListValue{}
	for _, d := range req.GetDescriptors() {
		descriptors.Values = append(descriptors.Values, structpb.NewStructValue(descriptorMetadata(d)))
	}
	fields := map[string]*structpb.Value{
		"domain":      structpb.NewStringValue(req.GetDomain()),
		"descriptors": structpb.NewListValue(descriptors),
	}
	if hits := req.GetHitsAddend(); hits != 0 {
		fields["hitsAddend"] = structpb.NewNumberValue(float64(hits))
	}
	passed := &structpb.Struct{Fields: map[string]*structpb.Value{}}
	for i := range answers {
		if a := &answers[i]; a.special != nil && a.special.metadata != nil && !isOverLimit(a) {
			merge(passed, a.special.metadata)
		}
	}
	if len(passed.Fields) > 0 {
		fields["metadata"] = structpb.NewStructValue(passed)
	}
	return &structpb.Struct{Fields: fields}
}

func descriptorMetadata(d *common.RateLimitDescriptor) *structpb.Struct {
	entries := &structpb.ListValue{}
	for _, e := range d.GetEntries() {
		entries.Values = append(entries.Values, structpb.NewStringValue(e.GetKey()+"="+e.GetValue()))
	}
	fields := map[string]*structpb.Value{"entries": structpb.NewListValue(entries)}
	if limit := d.GetLimit(); limit != nil {
		fields["limit"] = structpb.NewStringValue(fmt.Sprintf("requests_per_unit:%d unit:%v", limit.GetRequestsPerUnit(), limit.GetUnit()))
	}
	if hits := d.GetHitsAddend(); hits != nil {
		fields["hitsAddend"] = structpb.NewNumberValue(float64(hits.GetValue()))
	}
	return &structpb.Struct{Fields: fields}
}

// merge adds the fields of an object to another. A field that both have keeps its value, except that objects are merged.
func merge(into, from *structpb.Struct) {
	for name, value := range from.GetFields() {
		present, ok := into.Fields[name]
		if !ok {
			into.Fields[name] = proto.CloneOf(value)
			continue
		}
		if a, b := present.GetStructValue(), value.GetStructValue(); a != nil && b != nil {
			merge(a, b)
		}
	}
}

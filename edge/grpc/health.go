package grpcedge

import (
	"context"
	"slices"
	"sync"
	"time"

	auth "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// healthInterval is the time between two questions whether the server is ready.
const healthInterval = time.Second

// healthNames are the services whose health can be asked. The empty name is the server as a whole.
var healthNames = []string{"", pb.RateLimitService_ServiceDesc.ServiceName, auth.Authorization_ServiceDesc.ServiceName}

// healthService serves grpc.health.v1. All services have the readiness of the server as their health. Unlike the health
// service of grpc-go, it ends the streams of watchers when the server stops, so that they do not delay it.
type healthService struct {
	healthpb.UnimplementedHealthServer
	ready func() error
	wait  sync.WaitGroup

	mu      sync.Mutex // guards the fields below
	serving bool
	stopped bool          // the server stops; serving is false
	changed chan struct{} // closed when a field changes, and replaced
	done    chan struct{} // closed when the server stops
}

func newHealth(ready func() error) *healthService {
	h := &healthService{ready: ready, serving: ready() == nil, changed: make(chan struct{}), done: make(chan struct{})}
	h.wait.Go(h.follow)
	return h
}

// follow updates the state until the server stops.
func (h *healthService) follow() {
	ticker := time.NewTicker(healthInterval)
	defer ticker.Stop()
	for {
		select {
		case <-h.done:
			return
		case <-ticker.C:
			h.set(h.ready() == nil, false)
		}
	}
}

// set changes the state, and notifies watchers if it is different. A stopped server stays stopped.
func (h *healthService) set(serving, stopped bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stopped || h.serving == serving && !stopped {
		return
	}
	h.serving, h.stopped = serving, stopped
	close(h.changed)
	h.changed = make(chan struct{})
	if stopped {
		close(h.done)
	}
}

// stop sets the state to NOT_SERVING permanently.
func (h *healthService) stop() {
	h.set(false, true)
	h.wait.Wait()
}

// state returns the state, whether the server stops, and a channel that is closed when either changes.
func (h *healthService) state() (s healthpb.HealthCheckResponse_ServingStatus, stopped bool, changed <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.serving {
		return healthpb.HealthCheckResponse_SERVING, false, h.changed
	}
	return healthpb.HealthCheckResponse_NOT_SERVING, h.stopped, h.changed
}

// Check returns the health of a service.
func (h *healthService) Check(_ context.Context, req *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	if !slices.Contains(healthNames, req.GetService()) {
		return nil, status.Error(codes.NotFound, "unknown service")
	}
	s, _, _ := h.state()
	return &healthpb.HealthCheckResponse{Status: s}, nil
}

// Watch sends the health of a service, and then each change of it.
func (h *healthService) Watch(req *healthpb.HealthCheckRequest, stream healthpb.Health_WatchServer) error {
	known := slices.Contains(healthNames, req.GetService())
	last := healthpb.HealthCheckResponse_UNKNOWN
	for {
		s, stopped, changed := h.state()
		if !known {
			s = healthpb.HealthCheckResponse_SERVICE_UNKNOWN
		}
		if s != last {
			if err := stream.Send(&healthpb.HealthCheckResponse{Status: s}); err != nil {
				return err
			}
			last = s
		}
		if stopped {
			return status.Error(codes.Unavailable, "the server stops")
		}
		select {
		case <-changed:
		case <-stream.Context().Done():
			return status.FromContextError(stream.Context().Err()).Err()
		}
	}
}

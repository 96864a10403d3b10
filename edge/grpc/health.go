package grpcedge

import (
	"sync"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

// healthInterval is the time between two questions whether the server is ready.
const healthInterval = time.Second

// healthNames are the services whose health can be asked. The empty name is the server as a whole.
var healthNames = []string{"", pb.RateLimitService_ServiceDesc.ServiceName}

// healthService serves grpc.health.v1. It follows the readiness of the server.
type healthService struct {
	server *health.Server
	ready  func() bool
	done   chan struct{}
	end    func() // closes done, once
	wait   sync.WaitGroup
}

func newHealth(ready func() bool) *healthService {
	h := &healthService{server: health.NewServer(), ready: ready, done: make(chan struct{})}
	h.end = sync.OnceFunc(func() { close(h.done) })
	h.update()
	h.wait.Go(h.follow)
	return h
}

func (h *healthService) register(s *grpc.Server) { healthpb.RegisterHealthServer(s, h.server) }

// follow updates the status until the service is stopped.
func (h *healthService) follow() {
	ticker := time.NewTicker(healthInterval)
	defer ticker.Stop()
	for {
		select {
		case <-h.done:
			return
		case <-ticker.C:
			h.update()
		}
	}
}

// update sets the status of all services. The health.Server notifies watchers only of changes.
func (h *healthService) update() {
	serving := healthpb.HealthCheckResponse_NOT_SERVING
	if h.ready() {
		serving = healthpb.HealthCheckResponse_SERVING
	}
	for _, name := range healthNames {
		h.server.SetServingStatus(name, serving)
	}
}

// stop sets the status to NOT_SERVING for good.
func (h *healthService) stop() {
	h.server.Shutdown()
	h.end()
	h.wait.Wait()
}

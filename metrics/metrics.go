package metrics

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/throttledhq/throttled/cluster"
	"github.com/throttledhq/throttled/ruleset"
	"github.com/throttledhq/throttled/server/statistics"
	"github.com/throttledhq/throttled/topology"
)

// Sources are the parts of a server whose statistics are exported. Their functions are called for each scrape.
type Sources struct {
	Version string                   // of the program
	Server  func() statistics.Server // required
	Rules   *ruleset.Store           // nil: no metrics of rules
	Node    Node                     // nil: the server has no log
	// Certificates returns the times at which certificates expire, by the value of the label "certificate". Optional.
	Certificates func() map[string]time.Time
	Log          *slog.Logger // optional; nil disables logging
}

// Node is implemented by [cluster.Node].
type Node interface {
	View() *topology.View
	Status() topology.Status
	CommitStats() cluster.CommitStats
}

// Metrics is the registry of the metrics of one server.
type Metrics struct {
	registry   *prometheus.Registry
	http, grpc *Requests
	log        *slog.Logger
}

// New returns the metrics of a server, including those of the Go runtime and of the process.
func New(s Sources) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry(), http: newRequests(httpForm), grpc: newRequests(grpcForm), log: s.Log}
	if m.log == nil {
		m.log = slog.New(slog.DiscardHandler)
	}
	m.registry.MustRegister(
		newCollector(&s), m.http, m.grpc,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return m
}

// maxScrapes is the maximum number of concurrent scrapes. Further ones are refused with status 503.
const maxScrapes = 4

// Handler returns the handler of scrapes, in the text format of Prometheus or in OpenMetrics. If a metric cannot be
// collected, the others are still exported.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		ErrorLog: errorLog{m.log}, ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: maxScrapes, EnableOpenMetrics: true,
	})
}

// HTTP returns the metrics of requests of the HTTP server.
func (m *Metrics) HTTP() *Requests { return m.http }

// GRPC returns the metrics of requests of the gRPC server.
func (m *Metrics) GRPC() *Requests { return m.grpc }

// errorLog logs the errors of scrapes.
type errorLog struct{ log *slog.Logger }

// Println logs an error. It implements promhttp.Logger.
func (l errorLog) Println(v ...any) { l.log.Error("cannot export a metric", "error", v) }

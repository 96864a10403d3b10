package tracing

import (
	"log/slog"
	"time"

	"go.opentelemetry.io/otel"

	"github.com/throttledhq/throttled/internal/lograte"
)

// failedText is the log line for an error of sending.
const failedText = "cannot send traces to otlp-endpoint; they are dropped"

// logErrors logs the errors of sending traces, at most one line a minute. The handler of errors is global in OpenTelemetry.
func logErrors(log *slog.Logger) {
	lines := lograte.New(1, time.Minute)
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		missed, ok := lines.Allow(failedText, time.Now())
		switch {
		case !ok:
		case missed > 0:
			log.Warn(failedText, "error", err, "repeated", missed)
		default:
			log.Warn(failedText, "error", err)
		}
	}))
}

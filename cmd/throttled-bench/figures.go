package main

import (
	"math"
	"slices"
)

// figure identifies a measured quantity.
type figure int

const (
	perSecond figure = iota
	seconds
	requests
	deniedShare
	errorReplies
	errorShare
	mean
	p50
	p90
	p95
	p99
	p999
	p9999
	longestWait
	targetRate
	lateP99
	lateMax
	unsentRequests
	serverCPU
	serverUser
	serverSystem
	serverCores
	serverRSS
	serverGrowth
	serverGrowthEach
	generatorCores
	figureCount
)

// values holds the value of each figure, NaN if it was not measured.
type values [figureCount]float64

func noValues() (v values) {
	for i := range v {
		v[i] = math.NaN()
	}
	return v
}

// unit specifies the format of a value.
type unit uint8

const (
	whole   unit = iota // a count
	micros              // microseconds
	percent             // a share, shown as a percentage in text
	decimal             // two decimal places
	mebi                // shown as MiB in text
)

// figureInfo describes a figure for JSON, CSV, the text report, medians and ratios.
type figureInfo struct {
	name  string // in JSON and CSV
	label string // in text
	unit  unit
	merge func([]float64) float64 // merges the values of the rounds
	ratio bool                    // ratios to the first target are reported
	quiet bool                    // omitted in text if the value is 0 for all targets
}

var figureTable = [figureCount]figureInfo{
	perSecond:        {"requests_per_second", "good replies per second", whole, median, true, false},
	seconds:          {"seconds", "seconds measured", decimal, sum, false, false},
	requests:         {"replies", "replies", whole, sum, false, false},
	deniedShare:      {"denied_share", "denied, %", percent, median, false, false},
	errorReplies:     {"errors", "error replies", whole, sum, false, false},
	errorShare:       {"error_share", "errors, %", percent, median, false, true},
	mean:             {"latency_mean_us", "latency mean, us", micros, median, false, false},
	p50:              {"latency_p50_us", "p50, us", micros, median, true, false},
	p90:              {"latency_p90_us", "p90, us", micros, median, false, false},
	p95:              {"latency_p95_us", "p95, us", micros, median, false, false},
	p99:              {"latency_p99_us", "p99, us", micros, median, true, false},
	p999:             {"latency_p99_9_us", "p99.9, us", micros, median, false, false},
	p9999:            {"latency_p99_99_us", "p99.99, us", micros, median, false, false},
	longestWait:      {"latency_max_us", "max, us", micros, slices.Max[[]float64], false, false},
	targetRate:       {"target_rate", "scheduled per second", whole, median, false, false},
	lateP99:          {"sent_late_p99_us", "sent late p99, us", micros, median, false, false},
	lateMax:          {"sent_late_max_us", "sent late max, us", micros, slices.Max[[]float64], false, false},
	unsentRequests:   {"unsent", "due but not sent", whole, sum, false, true},
	serverCPU:        {"server_cpu_us_per_reply", "server CPU per reply, us", decimal, median, true, false},
	serverUser:       {"server_user_us_per_reply", "user CPU per reply, us", decimal, median, false, false},
	serverSystem:     {"server_system_us_per_reply", "system CPU per reply, us", decimal, median, false, false},
	serverCores:      {"server_cores", "server cores busy", decimal, median, false, false},
	serverRSS:        {"server_rss_bytes", "server memory, MiB", mebi, median, false, false},
	serverGrowth:     {"server_rss_growth_bytes", "growth in a round, MiB", mebi, median, false, false},
	serverGrowthEach: {"server_rss_growth_bytes_per_reply", "growth per reply, bytes", decimal, median, false, false},
	generatorCores:   {"generator_cores", "generator cores busy", decimal, median, false, false},
}

// percentiles lists the figures that are percentiles of the latency histogram.
var percentiles = []struct {
	of   float64
	into figure
}{{50, p50}, {90, p90}, {95, p95}, {99, p99}, {99.9, p999}, {99.99, p9999}, {100, longestWait}}

func sum(list []float64) float64 {
	total := 0.0
	for _, v := range list {
		total += v
	}
	return total
}

// median returns the middle value, or the mean of the two middle values.
func median(list []float64) float64 {
	list = slices.Sorted(slices.Values(list))
	middle := len(list) / 2
	if len(list)%2 == 1 {
		return list[middle]
	}
	return (list[middle-1] + list[middle]) / 2
}

// mergeValues merges the values of all rounds. A figure that was not measured in every
// round is NaN.
func mergeValues(rounds []values) values {
	merged := noValues()
	for f := range figureCount {
		list := make([]float64, len(rounds))
		for i, v := range rounds {
			list[i] = v[f]
		}
		if len(list) > 0 && !slices.ContainsFunc(list, math.IsNaN) {
			merged[f] = figureTable[f].merge(list)
		}
	}
	return merged
}

// ratio returns the ratio of figure f to the same figure of the first target. It returns
// NaN if no ratios are reported for the figure, or if its value is 0 for the first target.
func (v values) ratio(first values, f figure) float64 {
	if !figureTable[f].ratio || first[f] == 0 {
		return math.NaN()
	}
	return v[f] / first[f]
}

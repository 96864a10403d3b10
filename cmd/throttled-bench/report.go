package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
)

// reports maps the formats of the report to their writers.
var reports = map[string]func(io.Writer, *results) error{
	"text": writeText,
	"json": writeJSON,
	"csv":  writeCSV,
}

// jsonRun is the report in JSON. Figures that were not measured are omitted.
type jsonRun struct {
	Settings    jsonSettings `json:"settings"`
	Interrupted bool         `json:"interrupted"`
	Targets     []jsonTarget `json:"targets"`
}

type jsonSettings struct {
	Command         string  `json:"command"`
	DeniedCommand   string  `json:"denied_command,omitempty"`
	DeniedShare     float64 `json:"denied_share,omitempty"`
	Keys            int64   `json:"keys"`
	KeySize         int     `json:"key_size"`
	Distribution    string  `json:"distribution"`
	Seed            uint64  `json:"seed"`
	Connections     int     `json:"connections"`
	Depth           int     `json:"depth"`
	Threads         int     `json:"threads"`
	Rate            float64 `json:"rate"`
	Requests        int64   `json:"requests,omitempty"`
	DurationSeconds float64 `json:"duration_seconds,omitempty"`
	WarmupSeconds   float64 `json:"warmup_seconds"`
	Rounds          int     `json:"rounds"`
}

type jsonTarget struct {
	Target  string             `json:"target"`
	Figures map[string]float64 `json:"figures"`
	Ratios  map[string]float64 `json:"ratios,omitempty"` // to the first target
	Errors  failures           `json:"errors,omitempty"`
	Notes   []string           `json:"notes,omitempty"`
	Rounds  []jsonRound        `json:"rounds"`
}

type jsonRound struct {
	Round   int                `json:"round"`
	Figures map[string]float64 `json:"figures"`
}

func (c *config) settings() jsonSettings {
	s := jsonSettings{
		Command: c.work.regular.text, DeniedShare: c.work.denied,
		Keys: c.work.layout.keys, KeySize: c.work.layout.size, Distribution: c.work.dist.String(), Seed: c.work.seed,
		Connections: c.conns, Depth: c.depth, Threads: c.threads, Rate: c.rate,
		Requests: c.requests, WarmupSeconds: c.warmup.Seconds(), Rounds: c.rounds,
	}
	if c.work.exhausted != nil {
		s.DeniedCommand = c.work.exhausted.text
	}
	if c.duration < never {
		s.DurationSeconds = c.duration.Seconds()
	}
	return s
}

func writeJSON(w io.Writer, r *results) error {
	run := jsonRun{Settings: r.config.settings(), Interrupted: r.interrupted}
	for i, t := range r.totals {
		j := jsonTarget{Target: t.target, Figures: t.values.named(), Errors: t.failures, Notes: t.notes}
		if i > 0 {
			j.Ratios = t.values.ratios(r.totals[0].values).named()
		}
		for _, one := range r.rounds {
			if one.target == t.target {
				j.Rounds = append(j.Rounds, jsonRound{one.round, one.values.named()})
			}
		}
		run.Targets = append(run.Targets, j)
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(run)
}

// named returns the measured values by the names of their figures.
func (v values) named() map[string]float64 {
	m := map[string]float64{}
	for f, value := range v {
		if !math.IsNaN(value) {
			m[figureTable[f].name] = rounded(value)
		}
	}
	return m
}

// ratios returns all ratios to the first target.
func (v values) ratios(first values) values {
	out := noValues()
	for f := range figureCount {
		out[f] = v.ratio(first, f)
	}
	return out
}

// rounded rounds v to six decimal places.
func rounded(v float64) float64 { return math.Round(v*1e6) / 1e6 }

// writeCSV writes a row for each round, and then a row with round "all" for each target.
func writeCSV(w io.Writer, r *results) error {
	out := csv.NewWriter(w)
	head := []string{"target", "round"}
	for _, info := range figureTable {
		head = append(head, info.name)
	}
	if err := out.Write(head); err != nil {
		return err
	}
	for _, list := range [][]*result{r.rounds, r.totals} {
		for _, one := range list {
			if err := out.Write(csvRow(one)); err != nil {
				return fmt.Errorf("row of %s: %w", one.target, err)
			}
		}
	}
	out.Flush()
	return out.Error()
}

func csvRow(one *result) []string {
	round := "all"
	if one.round > 0 {
		round = strconv.Itoa(one.round)
	}
	row := []string{one.target, round}
	for _, v := range one.values {
		cell := ""
		if !math.IsNaN(v) {
			cell = strconv.FormatFloat(rounded(v), 'f', -1, 64)
		}
		row = append(row, cell)
	}
	return row
}

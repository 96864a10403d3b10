package main

import (
	"image/color"
	"math"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
)

// lettering returns a text style whose origin is the upper left corner of the text.
func lettering(size vg.Length) text.Style {
	return text.Style{
		Color: color.Black, Font: font.Font{Typeface: "Liberation", Variant: "Sans", Size: size},
		XAlign: text.XLeft, YAlign: text.YTop, Handler: plot.DefaultTextHandler,
	}
}

// slack is the largest factor by which a replacement font may be wider than the measured
// font. An SVG is shown with a replacement on systems that lack the font.
const slack = 1.15

// width returns the width of a text in the widest replacement font.
func width(style text.Style, s string) vg.Length { return style.Width(s) * slack }

const labelSize = 9

// styleAxes sets the labels and ticks of the axes. The y axis has no label: its ticks show
// the unit.
func styleAxes(p *plot.Plot) {
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.Label.TextStyle.Font = lettering(labelSize).Font
		axis.Label.Padding = 3
		axis.Tick.Label.Font = lettering(labelSize).Font
	}
	p.X.Label.Text = "percentile"
	p.X.Tick.Marker = plot.TickerFunc(percentileTicks)
	p.Y.Tick.Marker = plot.TickerFunc(latencyTicks)
}

// percentileRoom is the minimum length of the x axis.
const percentileRoom = plotWidth - 2*plotMargin - 2*60

// percentileTicks returns ticks at 0 %, 90 %, 99 % and so on. If the axis is too short for
// all labels, only every second or third tick has a label.
func percentileTicks(_, most float64) (ticks []plot.Tick) {
	label := "0"
	for x := 1.0; x <= most*1.001; x *= 10 {
		ticks = append(ticks, plot.Tick{Value: x, Label: label + " %"})
		switch label {
		case "0":
			label = "90"
		case "90":
			label = "99"
		case "99":
			label = "99.9"
		default:
			label += "9"
		}
	}
	spacing := percentileRoom / vg.Length(math.Log10(most))
	longest := width(lettering(labelSize), ticks[len(ticks)-1].Label) + labelSize
	step := int(math.Ceil(float64(longest / spacing)))
	for i := range ticks {
		if i%step > 0 {
			ticks[i].Label = ""
		}
	}
	return ticks
}

// latencyTicks returns ticks from least to most, in microseconds, at 1 to 9 times each
// power of ten. The powers of ten have labels. On an axis of up to three decades, 2 and 5
// times a power of ten have labels as well.
func latencyTicks(least, most float64) (ticks []plot.Tick) {
	first, last := int(math.Round(math.Log10(least))), int(math.Round(math.Log10(most)))
	for exponent := first; exponent < last; exponent++ {
		for factor := 1; factor < 10; factor++ {
			tick := plot.Tick{Value: float64(factor) * math.Pow10(exponent)}
			if factor == 1 || last-first <= 3 && (factor == 2 || factor == 5) {
				tick.Label = latencyLabel(factor, exponent)
			}
			ticks = append(ticks, tick)
		}
	}
	return append(ticks, plot.Tick{Value: math.Pow10(last), Label: latencyLabel(1, last)})
}

// latencyLabel formats a latency of factor * 10^exponent microseconds, in the largest unit
// in which its value is at least 1. The smallest unit is the nanosecond.
func latencyLabel(factor, exponent int) string {
	exponent += 3 // nanoseconds
	units := []string{"ns", "µs", "ms", "s"}
	unit := min(exponent/3, len(units)-1)
	return strconv.Itoa(factor*int(math.Pow10(exponent-3*unit))) + " " + units[unit]
}

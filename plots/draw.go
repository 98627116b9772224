package main

import (
	"bytes"
	"cmp"
	"fmt"
	"image/color"
	"math"
	"os"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// The colours are of Okabe and Ito's palette, which also those tell apart who see no red or no green. What is
// different besides differs in its shape, too.
var (
	blue       = color.NRGBA{0x00, 0x72, 0xb2, 0xff}
	sky        = color.NRGBA{0x56, 0xb4, 0xe9, 0xff}
	orange     = color.NRGBA{0xe6, 0x9f, 0x00, 0xff}
	vermillion = color.NRGBA{0xd5, 0x5e, 0x00, 0xff}
	black      = color.NRGBA{0x00, 0x00, 0x00, 0xff}
	grey       = color.NRGBA{0xe4, 0xe4, 0xe4, 0xff}
)

const (
	width, height = 22 * vg.Centimeter, 14.5 * vg.Centimeter
	sans          = font.Variant("Sans")
)

func init() {
	plot.DefaultFont = font.Font{Typeface: "Liberation", Variant: sans}
	plotter.DefaultFont = plot.DefaultFont
}

// drawCase writes a case's picture: what left, what was refused and who waited, under one another.
func drawCase(c plotCase, outcomes []outcome, name, format string) error {
	p := panelsOf(outcomes, c.bin)
	rows := [][]*plot.Plot{{departures(c, p)}, {refusals(c, p)}, {queue(c, p)}}
	rows[0][0].Title.Text = c.title + "\n" + c.figures(outcomes)
	for i, row := range rows {
		row[0].X.Min, row[0].X.Max = 0, p.end
		row[0].X.Tick.Marker = seconds{labels: i == len(rows)-1}
	}
	rows[len(rows)-1][0].X.Label.Text = "seconds"

	canvas, err := draw.NewFormattedCanvas(width, height, format)
	if err != nil {
		return err
	}
	dc := draw.New(canvas)
	dc.FillPolygon(color.White, []vg.Point{dc.Min, {X: dc.Min.X, Y: dc.Max.Y}, dc.Max, {X: dc.Max.X, Y: dc.Min.Y}}) // also on a dark page
	tiles := draw.Tiles{Rows: len(rows), Cols: 1, PadY: 2 * vg.Millimeter, PadTop: vg.Millimeter, PadBottom: vg.Millimeter, PadLeft: vg.Millimeter, PadRight: 3 * vg.Millimeter}
	for i, row := range plot.Align(rows, tiles, dc) {
		rows[i][0].Draw(row[0])
	}
	var picture bytes.Buffer
	if _, err := canvas.WriteTo(&picture); err != nil {
		return err
	}
	if format == "svg" {
		return os.WriteFile(name, withFallbacks(picture.Bytes()), 0o644)
	}
	return os.WriteFile(name, picture.Bytes(), 0o644)
}

// withFallbacks names fonts of the same widths for those who don't have Liberation.
func withFallbacks(svg []byte) []byte {
	return bytes.ReplaceAll(svg, []byte("font-family:Liberation Sans;"), []byte("font-family:Liberation Sans,Arial,Helvetica,sans-serif;"))
}

// panel is an empty one, with what belongs into each: the outage, and where the next run begins.
func panel(c plotCase, p panels, label string, highest float64) *plot.Plot {
	out := plot.New()
	out.Title.TextStyle.Font.Size = vg.Points(11)
	out.Title.Padding = vg.Points(6)
	out.X.Padding, out.Y.Padding = 0, vg.Points(4)
	out.Y.Label.Text = label
	out.Y.Label.TextStyle.Font.Size = vg.Points(10)
	out.X.Label.TextStyle.Font.Size = vg.Points(10)
	out.Y.Tick.Marker = wholeNumbers{}
	out.Y.Min, out.Y.Max = 0, 1.5*highest // so that the legend finds room
	out.Legend.Top = true
	out.Legend.TextStyle.Font.Size = vg.Points(9)
	out.Legend.XOffs, out.Legend.Padding = -vg.Points(4), vg.Points(2)
	out.Legend.ThumbnailWidth = vg.Points(16)
	if c.outage[1] > 0 {
		from, to := c.outage[0].Seconds(), c.outage[1].Seconds()
		area := must(plotter.NewPolygon(plotter.XYs{{X: from}, {X: from, Y: out.Y.Max}, {X: to, Y: out.Y.Max}, {X: to}}))
		area.Color, area.LineStyle.Width = grey, 0
		out.Add(area)
	}
	for _, start := range p.starts {
		line := must(plotter.NewLine(plotter.XYs{{X: start}, {X: start, Y: out.Y.Max}}))
		line.Color, line.Dashes = black, []vg.Length{vg.Points(1), vg.Points(2)}
		out.Add(line)
	}
	return out
}

func departures(c plotCase, p panels) *plot.Plot {
	out := panel(c, p, "departures per s", max(highest(p.departures), c.rate, 1))
	line := steps(p.departures)
	line.Color, line.FillColor = blue, color.NRGBA{sky.R, sky.G, sky.B, 0x60}
	out.Add(line)
	out.Legend.Add(fmt.Sprintf("sent, in each %v", max(c.bin, tickLength)), line)
	bound(out, p, c.rate, cmp.Or(c.rateIs, fmt.Sprintf("the upstream takes %.4g/s", c.rate)))
	if c.outage[1] > 0 {
		out.Legend.Add("the upstream is unwell", swatch{grey})
	}
	return out
}

func refusals(c plotCase, p panels) *plot.Plot {
	out := panel(c, p, "refused per 0.1 s", max(most(p.limited, p.overloaded), 1))
	// A legend of what there is none of would have one look for it.
	if len(p.limited) > 0 {
		stems(out, p.limited, cmp.Or(c.refusals, "429"), vermillion, draw.CircleGlyph{})
	}
	if len(p.overloaded) > 0 {
		stems(out, p.overloaded, "503", black, draw.PyramidGlyph{})
	}
	if len(p.limited)+len(p.overloaded) == 0 {
		out.Legend.Add("none")
	}
	return out
}

func queue(c plotCase, p panels) *plot.Plot {
	out := panel(c, p, "requests", max(highest(p.waiting, p.inFlight), 1))
	waiting := steps(p.waiting)
	waiting.Color, waiting.FillColor = orange, color.NRGBA{orange.R, orange.G, orange.B, 0x50}
	inFlight := steps(p.inFlight)
	inFlight.Color, inFlight.Width = blue, vg.Points(1.5)
	out.Add(waiting, inFlight)
	out.Legend.Add("waiting", waiting)
	out.Legend.Add("in flight", inFlight)
	bound(out, p, float64(c.slots), fmt.Sprintf("the upstream does %d at a time", c.slots))
	return out
}

// bound draws what the upstream takes.
func bound(out *plot.Plot, p panels, value float64, label string) {
	if value == 0 {
		return
	}
	line := must(plotter.NewLine(plotter.XYs{{X: 0, Y: value}, {X: p.end, Y: value}}))
	line.Color, line.Dashes = black, []vg.Length{vg.Points(5), vg.Points(3)}
	out.Add(line)
	out.Legend.Add(label, line)
}

// steps joins them to a line.
func steps(steps []step) *plotter.Line {
	var xys plotter.XYs
	for i, s := range steps {
		if i == 0 || s.value != xys[len(xys)-1].Y {
			xys = append(xys, plotter.XY{X: s.from, Y: s.value})
		}
		if i == len(steps)-1 || s.value != steps[i+1].value {
			xys = append(xys, plotter.XY{X: s.to, Y: s.value})
		}
	}
	return must(plotter.NewLine(xys))
}

// stems draws numbers that are mostly none.
func stems(out *plot.Plot, points []point, label string, c color.Color, head draw.GlyphDrawer) {
	var heads plotter.XYs
	for _, p := range points {
		heads = append(heads, plotter.XY{X: p.at, Y: p.n})
		stem := must(plotter.NewLine(plotter.XYs{{X: p.at}, {X: p.at, Y: p.n}}))
		stem.Color, stem.Width = c, vg.Points(1.2)
		out.Add(stem)
	}
	scatter := must(plotter.NewScatter(heads))
	scatter.GlyphStyle = draw.GlyphStyle{Color: c, Radius: vg.Points(2.5), Shape: head}
	out.Add(scatter)
	out.Legend.Add(label, scatter)
}

// swatch is an area's thumbnail in a legend.
type swatch struct{ color color.Color }

func (s swatch) Thumbnail(c *draw.Canvas) {
	c.FillPolygon(s.color, []vg.Point{c.Min, {X: c.Min.X, Y: c.Max.Y}, c.Max, {X: c.Max.X, Y: c.Min.Y}})
}

// seconds marks an axis of time. Only the lowest has labels: it is the same for all.
type seconds struct{ labels bool }

func (s seconds) Ticks(low, high float64) []plot.Tick {
	every := 1.0
	if high > 15 {
		every = 2
	}
	var ticks []plot.Tick
	for t := 0.0; t <= high; t += every {
		tick := plot.Tick{Value: t}
		if s.labels {
			tick.Label = fmt.Sprint(t)
		}
		ticks = append(ticks, tick)
	}
	return ticks
}

// wholeNumbers marks an axis of what is counted, at some four of them.
type wholeNumbers struct{}

func (wholeNumbers) Ticks(low, high float64) []plot.Tick {
	every := 1.0
	for high/every > 5.5 {
		switch math.Round(every / math.Pow(10, math.Floor(math.Log10(every)))) {
		case 2:
			every *= 2.5
		default:
			every *= 2
		}
	}
	var ticks []plot.Tick
	for v := 0.0; v <= high; v += every {
		ticks = append(ticks, plot.Tick{Value: v, Label: fmt.Sprint(v)})
	}
	return ticks
}

// must is for plotters, which refuse only what has no points or isn't a number.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

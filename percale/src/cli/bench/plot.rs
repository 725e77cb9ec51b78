//! The figures as a drawing: a panel for each thing that was measured, both axes logarithmic.

use std::{fmt::Write, io, path::Path};

use super::{
    super::figures::{bytes, short},
    results::{Curves, Results},
};

/// Of a panel, and of the lines in it.
const PANEL: (f64, f64) = (440.0, 300.0);
const MARGIN: f64 = 52.0;
const COLUMNS: usize = 2;
/// Dark enough on white, and different to those who see no red or green.
const COLOURS: [&str; 2] = ["#0072b2", "#d55e00"];

/// Writes an SVG file.
pub(super) fn draw(results: &Results, path: &Path) -> io::Result<()> {
    std::fs::write(path, picture(results))
}

fn picture(results: &Results) -> String {
    // One place is a number and no line.
    let panels: Vec<Curves> =
        results.curves().into_iter().filter(|panel| panel.sides[0].len() > 1).collect();
    let columns = panels.len().clamp(1, COLUMNS);
    let rows = panels.len().div_ceil(columns);
    let (width, height) = (PANEL.0 * columns as f64, PANEL.1 * rows as f64 + MARGIN);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"white\"/>\n"
    );
    for (i, side) in results.sides.iter().enumerate() {
        let at = 16.0 + i as f64 * 200.0;
        let (colour, name) = (COLOURS[i % COLOURS.len()], escaped(&side.name));
        // Writing to a text cannot fail.
        let _ = writeln!(
            svg,
            "<rect x=\"{at}\" y=\"16\" width=\"12\" height=\"12\" fill=\"{colour}\"/>\
             <text x=\"{}\" y=\"26\">{name}</text>",
            at + 18.0
        );
    }
    for (i, curves) in panels.iter().enumerate() {
        let (x, y) = ((i % columns) as f64 * PANEL.0, (i / columns) as f64 * PANEL.1 + MARGIN);
        let _ = writeln!(svg, "<g transform=\"translate({x} {y})\">");
        panel(&mut svg, curves);
        svg.push_str("</g>\n");
    }
    svg + "</svg>\n"
}

fn panel(svg: &mut String, curves: &Curves) {
    let points = || curves.sides.iter().flatten();
    let across = Axis::over(points().map(|(size, _)| *size), 2.0, MARGIN, PANEL.0 - 16.0);
    let up = Axis::over(points().map(|(_, value)| *value), 10.0, PANEL.1 - MARGIN, 24.0);
    let (left, right, bottom, top) = (across.from, across.to, up.from, up.to);
    let _ = writeln!(
        svg,
        "<text x=\"{left}\" y=\"14\" font-weight=\"bold\">{}, {}</text>",
        escaped(curves.group),
        curves.unit
    );
    for value in up.marks() {
        let y = up.place(value);
        let _ = writeln!(
            svg,
            "<path d=\"M{left:.1} {y:.1}H{right:.1}\" stroke=\"#ddd\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            left - 6.0,
            y + 4.0,
            short(value)
        );
    }
    for (size, _) in &curves.sides[0] {
        let x = across.place(*size);
        let _ = writeln!(
            svg,
            "<path d=\"M{x:.1} {top:.1}V{bottom:.1}\" stroke=\"#eee\"/>\
             <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            bottom + 16.0,
            bytes(*size as usize)
        );
    }
    for (i, curve) in curves.sides.iter().enumerate() {
        let colour = COLOURS[i % COLOURS.len()];
        let places: Vec<String> = curve
            .iter()
            .map(|(size, value)| format!("{:.1},{:.1}", across.place(*size), up.place(*value)))
            .collect();
        let _ = writeln!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
            places.join(" ")
        );
    }
}

/// A logarithmic axis between two places.
struct Axis {
    least: f64,
    most: f64,
    from: f64,
    to: f64,
}

impl Axis {
    /// Over whole powers of a base that all values are between.
    fn over(values: impl Iterator<Item = f64>, base: f64, from: f64, to: f64) -> Self {
        let (mut least, mut most) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.map(|value| value.max(1e-9).log(base)) {
            (least, most) = (least.min(value.floor()), most.max(value.ceil()));
        }
        if least >= most {
            most = least + 1.0;
        }
        Self { least: base.powf(least), most: base.powf(most), from, to }
    }

    fn place(&self, value: f64) -> f64 {
        let part = (value.max(1e-9) / self.least).ln() / (self.most / self.least).ln();
        self.from + part * (self.to - self.from)
    }

    /// The powers of ten on it.
    fn marks(&self) -> impl Iterator<Item = f64> {
        let (first, last) = (self.least.log10().round() as i32, self.most.log10().round() as i32);
        (first..=last).map(|power| 10f64.powi(power))
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_are_over_whole_powers() {
        let axis = Axis::over([3.0, 40.0].into_iter(), 10.0, 0.0, 200.0);
        assert_eq!((axis.place(1.0), axis.place(10.0), axis.place(100.0)), (0.0, 100.0, 200.0));
        assert_eq!(axis.marks().collect::<Vec<f64>>(), [1.0, 10.0, 100.0]);
        let single = Axis::over([10.0].into_iter(), 10.0, 0.0, 1.0);
        assert!(single.place(10.0).is_finite());
    }

    #[test]
    fn text_is_text() {
        assert_eq!(escaped("a<b>&c"), "a&lt;b&gt;&amp;c");
    }
}

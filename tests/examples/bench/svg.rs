//! Line charts below each other, as SVG. Pure.

use std::fmt::Write;

use serde_json::{Value, json};

/// Lines over common axes.
#[derive(Clone, Debug)]
pub(crate) struct Chart {
    pub(crate) title: String,
    pub(crate) x: &'static str,
    pub(crate) lines: Vec<Line>,
}

/// Points in order of x, joined.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
}

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 300.0;
/// Around the points: left, top, right, bottom.
const LEFT: f64 = 80.0;
const TOP: f64 = 40.0;
const RIGHT: f64 = 200.0;
const BOTTOM: f64 = 50.0;
const COLOURS: [&str; 5] = ["#3366aa", "#cc6633", "#338855", "#884499", "#555555"];
const TICKS: u32 = 5;

impl Line {
    /// Values of runs, the first at 1.
    pub(crate) fn of_runs(name: &str, values: &[f64]) -> Self {
        let points = (1_u32..).zip(values);
        Self {
            name: name.to_owned(),
            points: points
                .map(|(run, &value)| (f64::from(run), value))
                .collect(),
        }
    }
}

impl Chart {
    pub(crate) fn json(&self) -> Value {
        let lines = self.lines.iter().map(|line| {
            let points = line.points.iter();
            let points: Vec<_> = points
                .map(|&(x, y)| [crate::stats::rounded(x), crate::stats::rounded(y)])
                .collect();
            json!({"name": line.name, "points": points})
        });
        json!({"title": self.title, "x": self.x, "lines": lines.collect::<Vec<_>>()})
    }

    fn draw(&self, svg: &mut String) {
        let all = || self.lines.iter().flat_map(|line| &line.points);
        let largest = |of: fn(&(f64, f64)) -> f64| all().map(of).fold(0.0, f64::max);
        // Both axes begin at nothing: what is half as much looks half as much.
        let (x_max, y_max) = (round_up(largest(|it| it.0)), round_up(largest(|it| it.1)));
        let x_at = |x: f64| LEFT + x / x_max * (WIDTH - LEFT - RIGHT);
        let y_at = |y: f64| HEIGHT - BOTTOM - y / y_max * (HEIGHT - TOP - BOTTOM);
        text(svg, (LEFT, TOP - 16.0), "start", "bold", &self.title);
        for tick in 0..=TICKS {
            let share = f64::from(tick) / f64::from(TICKS);
            let (x, y) = (x_at(x_max * share), y_at(y_max * share));
            line(svg, "#dddddd", &[(LEFT, y), (WIDTH - RIGHT, y)]);
            text(
                svg,
                (LEFT - 8.0, y + 4.0),
                "end",
                "normal",
                &label(y_max * share),
            );
            text(
                svg,
                (x, HEIGHT - BOTTOM + 18.0),
                "middle",
                "normal",
                &label(x_max * share),
            );
        }
        text(
            svg,
            (WIDTH - RIGHT, HEIGHT - BOTTOM + 36.0),
            "end",
            "normal",
            self.x,
        );
        for (nth, drawn) in self.lines.iter().enumerate() {
            let colour = COLOURS[nth % COLOURS.len()];
            let points: Vec<_> = drawn
                .points
                .iter()
                .map(|&(x, y)| (x_at(x), y_at(y)))
                .collect();
            line(svg, colour, &points);
            // Many points are a line already.
            for (x, y) in points.iter().filter(|_| points.len() <= 30) {
                let _ = writeln!(
                    svg,
                    r#"<circle cx="{x:.1}" cy="{y:.1}" r="3" fill="{colour}"/>"#
                );
            }
            let y = TOP + 18.0 * nth as f64;
            let _ = writeln!(
                svg,
                r#"<rect x="{:.1}" y="{:.1}" width="10" height="10" fill="{colour}"/>"#,
                WIDTH - RIGHT + 16.0,
                y - 9.0,
            );
            text(
                svg,
                (WIDTH - RIGHT + 32.0, y),
                "start",
                "normal",
                &drawn.name,
            );
        }
    }
}

/// All of them, one below the other.
pub(crate) fn draw(charts: &[Chart]) -> String {
    let height = HEIGHT * charts.len().max(1) as f64;
    // Writing to a String does not fail, here and above.
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    for (nth, chart) in charts.iter().enumerate() {
        let _ = writeln!(
            svg,
            "<g transform=\"translate(0 {})\">",
            HEIGHT * nth as f64
        );
        chart.draw(&mut svg);
        svg.push_str("</g>\n");
    }
    svg.push_str("</svg>\n");
    svg
}

/// The next of 1, 2, 5, 10, 20 ... that is not below `value`; 1 for nothing.
fn round_up(value: f64) -> f64 {
    if !value.is_finite() || value <= 0.0 {
        return 1.0;
    }
    let unit = 10_f64.powf(value.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .find(|step| unit * step >= value);
    unit * step.unwrap_or(10.0)
}

fn label(value: f64) -> String {
    match value {
        0.0 => "0".to_owned(),
        v if v >= 1e6 => format!("{}M", crate::stats::rounded(v / 1e6)),
        v if v >= 1e3 => format!("{}k", crate::stats::rounded(v / 1e3)),
        v => crate::stats::rounded(v).to_string(),
    }
}

fn line(svg: &mut String, colour: &str, points: &[(f64, f64)]) {
    let points: Vec<_> = points
        .iter()
        .map(|(x, y)| format!("{x:.1},{y:.1}"))
        .collect();
    let _ = writeln!(
        svg,
        r#"<polyline points="{}" fill="none" stroke="{colour}" stroke-width="1.5"/>"#,
        points.join(" "),
    );
}

fn text(svg: &mut String, (x, y): (f64, f64), anchor: &str, weight: &str, what: &str) {
    let what = what
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;");
    let _ = writeln!(
        svg,
        r#"<text x="{x:.1}" y="{y:.1}" text-anchor="{anchor}" font-weight="{weight}">{what}</text>"#,
    );
}

#[cfg(test)]
mod tests {
    use super::{Chart, Line, draw, label, round_up};

    #[test]
    fn axes_end_at_round_numbers() {
        for (value, end) in [
            (0.0, 1.0),
            (1.0, 1.0),
            (1.1, 2.0),
            (4_900.0, 5_000.0),
            (5_001.0, 1e4),
        ] {
            assert_eq!(round_up(value), end, "{value}");
        }
        assert_eq!(
            [0.0, 0.2, 400.0, 12_500.0, 2e6].map(label),
            ["0", "0.2", "400", "12.5k", "2M"]
        );
    }

    #[test]
    fn the_largest_value_is_at_the_top_and_texts_are_escaped() {
        let chart = Chart {
            title: "a < b & c".to_owned(),
            x: "run",
            lines: vec![Line::of_runs("rate", &[500.0, 1_000.0])],
        };
        let svg = draw(&[chart]);
        assert!(svg.contains("a &lt; b &amp; c"));
        // Run 2 of 2 at the right end, 1,000 of 1,000 at the top.
        assert!(svg.contains(r#"points="370.0,145.0 660.0,40.0""#), "{svg}");
    }

    #[test]
    fn nothing_measured_draws_an_empty_picture() {
        assert!(draw(&[]).ends_with("</svg>\n"));
    }
}

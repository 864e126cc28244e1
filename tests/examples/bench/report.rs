//! What was measured, and the three files that say it.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Map, Value, json};

use crate::figures::FIGURES;
use crate::stats::{Summary, rounded};
use crate::svg::{self, Chart};

/// Filled by the parts.
#[derive(Default)]
pub(crate) struct Report {
    figures: BTreeMap<&'static str, Summary>,
    /// What figures are made of, by name: rates and times.
    raw: BTreeMap<String, Summary>,
    /// Whatever else a part has to say, by name.
    details: Map<String, Value>,
    /// Machine, versions, settings.
    facts: Map<String, Value>,
    parts: Vec<Part>,
    charts: Vec<Chart>,
}

struct Part {
    name: &'static str,
    seconds: f64,
    failure: Option<String>,
}

impl Report {
    /// # Errors
    /// When there is no run.
    pub(crate) fn figure(&mut self, name: &'static str, runs: Vec<f64>) -> Result<()> {
        let runs = Summary::of(runs).context(name)?;
        self.figures.insert(name, runs);
        Ok(())
    }

    /// # Errors
    /// When there is no run.
    pub(crate) fn raw(&mut self, name: &str, runs: &[f64]) -> Result<()> {
        let runs = Summary::of(runs.to_vec()).with_context(|| name.to_owned())?;
        self.raw.insert(name.to_owned(), runs);
        Ok(())
    }

    pub(crate) fn detail(&mut self, name: &str, value: Value) {
        self.details.insert(name.to_owned(), value);
    }

    pub(crate) fn fact(&mut self, name: &str, value: Value) {
        self.facts.insert(name.to_owned(), value);
    }

    pub(crate) fn chart(&mut self, chart: Chart) {
        self.charts.push(chart);
    }

    pub(crate) fn part(&mut self, name: &'static str, seconds: f64, failure: Option<String>) {
        self.parts.push(Part {
            name,
            seconds,
            failure,
        });
    }

    /// The parts that failed.
    pub(crate) fn failed(&self) -> Vec<&'static str> {
        let failed = self.parts.iter().filter(|part| part.failure.is_some());
        failed.map(|part| part.name).collect()
    }

    /// Writes `report.json`, `report.md` and `report.svg`.
    ///
    /// # Errors
    /// When they cannot be written.
    pub(crate) fn write(&self, directory: &Path) -> Result<()> {
        let write = |name: &str, text: String| {
            let path = directory.join(name);
            fs::write(&path, text).with_context(|| format!("writing {}", path.display()))
        };
        fs::create_dir_all(directory)?;
        write("report.json", format!("{:#}\n", self.json()))?;
        write("report.md", self.markdown())?;
        write("report.svg", svg::draw(&self.charts))
    }

    /// Figures by name, and beside them everything else.
    fn json(&self) -> Value {
        let summaries = |of: Vec<(String, &Summary)>| -> Map<String, Value> {
            of.into_iter().map(|(name, it)| (name, it.json())).collect()
        };
        let figures = self.figures.iter();
        let mut json = summaries(figures.map(|(name, it)| ((*name).to_owned(), it)).collect());
        let raw = self.raw.iter().map(|(name, it)| (name.clone(), it));
        json.insert("raw".to_owned(), summaries(raw.collect()).into());
        json.insert("details".to_owned(), self.details.clone().into());
        json.extend(self.facts.clone());
        let parts = self.parts.iter().map(|part| {
            json!({"name": part.name, "seconds": rounded(part.seconds), "failure": part.failure})
        });
        json.insert("parts".to_owned(), parts.collect());
        let charts = self.charts.iter().map(Chart::json);
        json.insert("charts".to_owned(), charts.collect());
        Value::Object(json)
    }

    /// The figures beside what is asked of them.
    pub(crate) fn table(&self) -> String {
        // Writing to a String does not fail, here and below.
        let mut text = String::new();
        text.push_str(
            "| name | what | least | good | beyond | median | min | max | runs | reached |\n",
        );
        text.push_str("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n");
        for figure in &FIGURES {
            let [least, good, beyond] = figure.marks;
            let marks = format!(
                "`{}` | {} | {least} | {good} | {beyond}",
                figure.name, figure.what
            );
            let _ = match self.figures.get(figure.name) {
                Some(it) => writeln!(
                    text,
                    "| {marks} | {} | {} | {} | {} | {} |",
                    rounded(it.median()),
                    rounded(it.min()),
                    rounded(it.max()),
                    it.values().len(),
                    figure.reached(it.median()),
                ),
                None => writeln!(text, "| {marks} | | | | 0 | not measured |"),
            };
        }
        text
    }

    fn markdown(&self) -> String {
        let mut text = "# Benchmark\n\n![charts](report.svg)\n\n## Figures\n\n".to_owned();
        text.push_str(&self.table());
        text.push_str("\n## What they are made of\n\n| name | median | min | max | runs |\n");
        text.push_str("| --- | --- | --- | --- | --- |\n");
        for (name, it) in &self.raw {
            let (median, min, max) = (rounded(it.median()), rounded(it.min()), rounded(it.max()));
            let runs = it.values().len();
            let _ = writeln!(text, "| `{name}` | {median} | {min} | {max} | {runs} |");
        }
        text.push_str("\n## Parts\n\n| part | seconds | |\n| --- | --- | --- |\n");
        for part in &self.parts {
            let first_line =
                |it: &String| it.lines().next().unwrap_or_default().replace('|', "\\|");
            let said = part.failure.as_ref().map(first_line);
            let said = said.map_or("well".to_owned(), |it| format!("**failed**: {it}"));
            let _ = writeln!(text, "| {} | {:.0} | {said} |", part.name, part.seconds);
        }
        for (title, values) in [
            ("Details", &self.details),
            ("Machine and settings", &self.facts),
        ] {
            let _ = writeln!(text, "\n## {title}\n");
            for (name, value) in values {
                let _ = match value {
                    Value::String(it) if it.contains('\n') => {
                        writeln!(text, "{name}:\n\n```\n{it}```\n")
                    }
                    // Too long to be read: see report.json.
                    _ if value.to_string().len() > 2_000 => Ok(()),
                    _ => writeln!(text, "- {name}: `{value}`"),
                };
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Report;

    fn report() -> anyhow::Result<Report> {
        let mut report = Report::default();
        report.figure("replay_ratio", vec![1.2, 1.1, 1.4])?;
        report.raw("replays_per_s", &[12.0])?;
        report.fact("settings", json!({"fsync": "on"}));
        report.part("replay", 4.0, None);
        report.part("growth", 1.0, Some("no space\nleft".to_owned()));
        Ok(report)
    }

    #[test]
    fn figures_stand_under_their_names() -> anyhow::Result<()> {
        let json = report()?.json();
        let expected =
            json!({"median": 1.2, "min": 1.1, "max": 1.4, "runs": 3, "values": [1.2, 1.1, 1.4]});
        assert_eq!(json["replay_ratio"], expected);
        assert_eq!(json["raw"]["replays_per_s"]["median"], 12.0);
        assert_eq!(json["settings"]["fsync"], "on");
        assert_eq!(json["parts"][1]["failure"], "no space\nleft");
        assert_eq!(json.get("growth_ratio"), None, "not measured");
        Ok(())
    }

    #[test]
    fn the_table_says_what_was_reached_and_what_failed() -> anyhow::Result<()> {
        let report = report()?;
        let text = report.markdown();
        assert!(
            text.contains("| 0.8 | 1 | 1.5 | 1.2 | 1.1 | 1.4 | 3 | good |"),
            "{text}"
        );
        assert!(
            text.contains("| growth | 1 | **failed**: no space |"),
            "{text}"
        );
        assert!(text.contains("| 0 | not measured |"));
        assert_eq!(report.failed(), ["growth"]);
        Ok(())
    }

    #[test]
    fn all_three_files_are_written() -> anyhow::Result<()> {
        let directory = tempfile::tempdir()?;
        let out = directory.path().join("bench");
        report()?.write(&out)?;
        for name in ["report.json", "report.md", "report.svg"] {
            assert!(out.join(name).exists(), "{name}");
        }
        Ok(())
    }
}

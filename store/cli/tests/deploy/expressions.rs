//! Checks of expressions in PromQL against the series that exist.
//!
//! An expression that names a metric or a label that does not exist is valid for Prometheus, and
//! never matches: an alert on it never fires, and a graph of it stays empty. So each part of an
//! expression is checked, and the labels of its result are computed:
//!
//!   selector       some series has the name and all labels; each alternative of `a|b` exists
//!   by, on         the labels exist in what is aggregated or compared
//!   a / b          both sides have the same labels, or the expression says which ones count
//!   rate           of a metric that only grows

use std::collections::BTreeSet;

use promql_parser::label::{MatchOp, Matcher};
use promql_parser::parser::{
    AggregateExpr, BinaryExpr, Call, Expr, LabelModifier, VectorMatchCardinality, VectorSelector,
    parse,
};

use promql_parser::util::{ExprVisitor, walk_expr};

use crate::scraped::Scraped;

/// Labels of a result; `None` for a number.
pub type Result<T = Option<BTreeSet<String>>> = std::result::Result<T, String>;

/// Functions of a counter over a range.
const OF_COUNTERS: [&str; 3] = ["rate", "irate", "increase"];

/// The labels of an expression's result.
pub fn check(scraped: &Scraped, expression: &str) -> Result {
    let parsed = parse(expression).map_err(|error| format!("{expression}: {error}"))?;
    labels(scraped, &parsed).map_err(|error| format!("{expression}: {error}"))
}

/// Checks the selectors alone, of an expression of another project.
pub fn check_selectors(scraped: &Scraped, expression: &str) -> Result<()> {
    let parsed = parse(expression).map_err(|error| format!("{expression}: {error}"))?;
    walk_expr(&mut Selectors(scraped), &parsed).map(drop)
}

struct Selectors<'a>(&'a Scraped);

impl ExprVisitor for Selectors<'_> {
    type Error = String;

    fn pre_visit(&mut self, expression: &Expr) -> std::result::Result<bool, String> {
        match expression {
            Expr::VectorSelector(selector) => of_selector(self.0, selector).map(drop)?,
            Expr::MatrixSelector(matrix) => of_selector(self.0, &matrix.vs).map(drop)?,
            _ => {}
        }
        Ok(true)
    }
}

fn labels(scraped: &Scraped, expression: &Expr) -> Result {
    match expression {
        Expr::NumberLiteral(_) | Expr::StringLiteral(_) => Ok(None),
        Expr::Paren(inner) => labels(scraped, &inner.expr),
        Expr::Unary(inner) => labels(scraped, &inner.expr),
        Expr::Subquery(inner) => labels(scraped, &inner.expr),
        Expr::VectorSelector(selector) => of_selector(scraped, selector).map(Some),
        Expr::MatrixSelector(matrix) => of_selector(scraped, &matrix.vs).map(Some),
        Expr::Aggregate(aggregate) => of_aggregate(scraped, aggregate).map(Some),
        Expr::Call(call) => of_call(scraped, call),
        Expr::Binary(binary) => of_binary(scraped, binary),
        Expr::Extension(_) => Err("no extension is known".to_owned()),
    }
}

fn of_selector(scraped: &Scraped, selector: &VectorSelector) -> Result<BTreeSet<String>> {
    let name = selector.name.as_deref().ok_or("a selector has no name")?;
    let mut found: Vec<_> = scraped.of(name).iter().collect();
    if found.is_empty() {
        return Err(format!("there is no metric {name}"));
    }
    for matcher in &selector.matchers.matchers {
        for alternative in alternatives(matcher) {
            let has = |value: &String| alternative.is_match(value);
            if !found
                .iter()
                .any(|it| it.get(&matcher.name).is_some_and(has))
            {
                return Err(format!("no series of {name} has {alternative}"));
            }
        }
        found.retain(|it| {
            let value = it.get(&matcher.name);
            value.is_some_and(|it| matcher.is_match(it))
        });
    }
    Ok(found.iter().flat_map(|it| it.keys()).cloned().collect())
}

/// A matcher for each alternative of a regular expression such as `a|b`: each must match a series.
fn alternatives(matcher: &Matcher) -> Vec<Matcher> {
    match &matcher.op {
        MatchOp::Re(_) | MatchOp::NotRe(_) if !matcher.value.contains('(') => {
            let values = matcher.value.split('|');
            values.map(|value| alternative(value, matcher)).collect()
        }
        _ => vec![matcher.clone()],
    }
}

/// A part without the marks of regular expressions is compared as text. What a negated
/// expression leaves out must exist as well.
fn alternative(value: &str, whole: &Matcher) -> Matcher {
    let is_plain = value.chars().all(|it| it.is_alphanumeric() || it == '_');
    match is_plain {
        true => Matcher::new(MatchOp::Equal, &whole.name, value),
        false => whole.clone(),
    }
}

fn of_aggregate(scraped: &Scraped, aggregate: &AggregateExpr) -> Result<BTreeSet<String>> {
    let inner = labels(scraped, &aggregate.expr)?.ok_or("a number is aggregated")?;
    match &aggregate.modifier {
        None => Ok(BTreeSet::new()),
        Some(LabelModifier::Include(kept)) => {
            let kept = kept.labels.iter().cloned().collect();
            expect_all(&kept, &inner)?;
            Ok(kept)
        }
        Some(LabelModifier::Exclude(dropped)) => {
            let dropped = dropped.labels.iter().cloned().collect();
            expect_all(&dropped, &inner)?;
            Ok(&inner - &dropped)
        }
    }
}

fn expect_all(wanted: &BTreeSet<String>, there: &BTreeSet<String>) -> Result<()> {
    match wanted.difference(there).next() {
        None => Ok(()),
        Some(missing) => Err(format!("there is no label {missing} among {there:?}")),
    }
}

fn of_call(scraped: &Scraped, call: &Call) -> Result {
    let mut result = None;
    for argument in &call.args.args {
        result = labels(scraped, argument)?.or(result);
        if let (true, Expr::MatrixSelector(matrix)) =
            (OF_COUNTERS.contains(&call.func.name), &**argument)
        {
            let name = matrix.vs.name.as_deref().unwrap_or_default();
            if !scraped.is_counter(name) {
                return Err(format!("{name} may fall, so {} is wrong", call.func.name));
            }
        }
    }
    if call.func.name == "histogram_quantile" {
        let of_bound = BTreeSet::from(["le".to_owned()]);
        let inner = result.ok_or("a quantile of a number")?;
        expect_all(&of_bound, &inner)?;
        return Ok(Some(&inner - &of_bound));
    }
    Ok(result)
}

fn of_binary(scraped: &Scraped, binary: &BinaryExpr) -> Result {
    let left = labels(scraped, &binary.lhs)?;
    let right = labels(scraped, &binary.rhs)?;
    let (Some(left), Some(right)) = (left.clone(), right.clone()) else {
        return Ok(left.or(right));
    };
    let modifier = binary.modifier.as_ref();
    match modifier.and_then(|it| it.matching.as_ref()) {
        Some(LabelModifier::Include(on)) => {
            let on = on.labels.iter().cloned().collect();
            expect_all(&on, &left)?;
            expect_all(&on, &right)?;
            Ok(Some(match modifier.map(|it| &it.card) {
                Some(VectorMatchCardinality::ManyToOne(_)) => left,
                Some(VectorMatchCardinality::OneToMany(_)) => right,
                _ => on,
            }))
        }
        None if left == right => Ok(Some(left)),
        None => Err(format!("{left:?} on the left never equals {right:?}")),
        Some(LabelModifier::Exclude(_)) => Err("`ignoring` is not known here".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# TYPE calls_total counter
calls_total{code=\"OK\",method=\"Put\"} 1
calls_total{code=\"Internal\",method=\"Put\"} 0
# TYPE leads gauge
leads 1
# TYPE limit gauge
limit 5
# TYPE seconds histogram
seconds_bucket{to=\"b\",le=\"0.1\"} 1
seconds_bucket{to=\"b\",le=\"+Inf\"} 1
seconds_sum{to=\"b\"} 0.05
seconds_count{to=\"b\"} 1
";

    fn result_of(expression: &str) -> Result {
        let mut scraped = Scraped::default();
        scraped.add("a:1", PAGE);
        check(&scraped, expression)
    }

    #[test]
    fn the_labels_of_a_result_are_those_that_prometheus_gives() {
        for (expression, expected) in [
            ("leads", "instance job"),
            ("up{job=\"inkstone\"}", "instance job"),
            ("leads / limit > 0.5", "instance job"),
            (
                "sum by (code) (rate(calls_total{method=\"Put\"}[5m]))",
                "code",
            ),
            ("sum without (code, method) (calls_total)", "instance job"),
            (
                "histogram_quantile(0.9, rate(seconds_bucket[1m]))",
                "instance job to",
            ),
            (
                "leads < on (job) group_left () max by (job) (leads)",
                "instance job",
            ),
            (
                "calls_total{code=~\"OK|Internal\"}",
                "code instance job method",
            ),
            ("max(leads)", ""),
        ] {
            let labels = result_of(expression).unwrap().unwrap();
            let labels: Vec<_> = labels.into_iter().collect();
            assert_eq!(labels.join(" "), expected, "{expression}");
        }
        assert_eq!(result_of("time() - 1").unwrap(), None);
    }

    #[test]
    fn an_expression_that_can_never_match_is_refused() {
        for (expression, complaint) in [
            ("lead", "no metric lead"),
            ("leads{member=\"a\"}", "has member=\"a\""),
            ("calls_total{code=\"Ok\"}", "has code=\"Ok\""),
            ("calls_total{code=~\"OK|Lost\"}", "has code=\"Lost\""),
            ("calls_total{code!~\"OK|Lost\"}", "has code=\"Lost\""),
            ("sum by (member) (leads)", "no label member"),
            ("sum without (member) (leads)", "no label member"),
            ("calls_total / limit", "never equals"),
            ("leads < on (member) limit", "no label member"),
            ("rate(leads[5m])", "may fall"),
            (
                "histogram_quantile(0.9, rate(seconds_count[1m]))",
                "no label le",
            ),
            ("sum by (job) (leads", "unclosed"),
            ("rate(leads)", "expected type matrix"),
        ] {
            let error = result_of(expression).unwrap_err();
            assert!(error.contains(complaint), "{error}");
        }
    }
}

use std::path::Path;

use fullpipe_scenario::Edition;

use super::*;
use crate::plan::Plan;

/// A grid of two algorithms and three rates.
fn grid(expect: &str) -> Result<Plan, String> {
    let text = format!(
        "cc = [\"bbr3\", \"cubic\"]\nexpect = [{expect:?}]\n[path]\nrtt = \"40ms\"\n\
         rate = [\"1mbit\", \"2mbit\", \"4mbit\"]\n[[flow]]\ncount = 2\n[[flow]]\nname = \"late\"\n"
    );
    Plan::parse(&text, "x.toml", "x", Path::new(""), Edition::default()).map_err(|e| e.to_string())
}

/// Verdict if run number `i` has the value `values[i]` for every probe.
fn judged(expect: &str, values: [f64; 6]) -> Verdict {
    let plan = grid(expect).unwrap_or_else(|e| panic!("{e}"));
    let rows = values.map(|v| vec![Some(v); plan.probes.len()]);
    let rows: Vec<&[Option<f64>]> = rows.iter().map(Vec::as_slice).collect();
    plan.judge(&rows).remove(0)
}

#[test]
fn without_a_pick_it_holds_in_every_run() {
    let v = judged("goodput_mbps >= 3", [3.0, 4.0, 5.0, 9.0, 2.0, 9.0]);
    assert_eq!((v.met, v.cases, v.unmet), (false, 6, 1));
    assert_eq!((v.value, v.bound, v.margin), (Some(2.0), Some(3.0), Some(-1.0)));
    let at: Vec<&str> = v.at.iter().map(|(_, value)| value.as_str()).collect();
    assert_eq!(at, ["cubic", "2mbit"]);
    let v = judged("goodput_mbps >= 3", [3.0, 4.0, 5.0, 9.0, 9.0, 9.0]);
    assert_eq!((v.met, v.unmet, v.margin), (true, 0, Some(0.0)));
}

#[test]
fn picks_compare_runs_that_differ_in_them_alone() {
    let v = judged("jain[bbr3] >= 0.5 * jain[cubic]", [1.0, 2.0, 3.0, 2.0, 5.0, 6.0]);
    assert_eq!((v.met, v.cases, v.unmet), (false, 3, 1));
    assert_eq!((v.value, v.bound), (Some(2.0), Some(2.5)));
    let v = judged("jain[cc=bbr3, 1mbit] < jain[rate=4mbit, bbr3]", [1.0, 0.0, 3.0, 0.0, 0.0, 0.0]);
    assert_eq!((v.met, v.cases, v.margin), (true, 1, Some(2.0)));
    // What picks nothing is the run at hand.
    let v = judged("jain <= jain[cubic]", [1.0, 2.0, 3.0, 1.0, 2.0, 2.0]);
    assert_eq!((v.met, v.cases, v.unmet, v.margin), (false, 6, 1, Some(-1.0)));
}

#[test]
fn arithmetic_has_its_usual_order() {
    for (expect, margin) in [
        ("jain >= 1 + 2 * 3", -1.0),
        ("jain >= (1 + 2) * 3", -3.0),
        ("jain >= 8 / 4 / 2", 5.0),
        ("jain >= 8 - 4 - 2", 4.0),
        ("jain == 6", 0.0),
        ("2*jain-6>6 after 1s", 0.0),
        ("jain<6.5", 0.5),
    ] {
        let v = judged(expect, [6.0; 6]);
        assert_eq!(v.margin, Some(margin), "{expect}");
        assert_eq!(v.met, margin > 0.0 || margin == 0.0 && !expect.contains('>'), "{expect}");
    }
}

#[test]
fn an_axis_with_brackets_can_be_picked() {
    let text = "expect = [\"flow[1].share[flow[0].cc=bbr3] > share_of\"]\n\
                path = { rate = \"9mbit\", rtt = \"9ms\" }\n\
                flow = [{ cc = [\"bbr3\", \"reno\"] }, { cc = [\"bbr3\", \"cubic\"] }]\n";
    let text = text.replace("share_of", "flow[1].share[flow[0].cc=reno, cubic]");
    let plan =
        Plan::parse(&text, "x.toml", "x", Path::new(""), Edition::default()).expect("a plan");
    assert_eq!(plan.grid.axes, ["flow[0].cc", "flow[1].cc"]);
    let rows: Vec<Vec<Option<f64>>> = [5.0, 6.0, 7.0, 4.0].map(|v| vec![Some(v)]).to_vec();
    let rows: Vec<&[Option<f64>]> = rows.iter().map(Vec::as_slice).collect();
    let v = &plan.judge(&rows)[0];
    assert_eq!((v.cases, v.margin, v.bound), (2, Some(1.0), Some(4.0)));
}

#[test]
fn a_function_takes_the_values_of_an_axis_together() {
    let values = [1.0, 5.0, 3.0, 2.0, 8.0, 4.0];
    for (expect, value, cases) in [
        ("max(jain[bbr3] over rate) >= 0", 5.0, 1),
        ("min(jain over rate) >= 0", 1.0, 2),
        ("min(jain[cubic] over rate=2mbit..4mbit) >= 0", 4.0, 1),
        ("median(jain[bbr3] over rate) >= 0", 3.0, 1),
        ("median(jain[cubic] over rate=1mbit..2mbit) >= 0", 5.0, 1),
        ("mean(jain over cc, rate) >= 0", 23.0 / 6.0, 1),
        ("sum(jain over cc) >= 0", 3.0, 3),
        ("max(jain[cubic] / jain[bbr3] over rate) >= 0", 2.0, 1),
        ("max(jain[bbr3] over rate) / min(jain[bbr3] over rate) >= 0", 5.0, 1),
    ] {
        let v = judged(expect, values);
        assert_eq!((v.value, v.cases), (Some(value), cases), "{expect}");
    }
    assert_eq!(judged("max(jain[bbr3] over rate) >= 0", values).at, []);
}

/// Each look of a function is as long as the axis: with one for each of its values, ten thousand
/// seeds would be looked at ten thousand times.
#[test]
fn points_that_mean_the_same_are_looked_at_once() {
    for (expect, points) in [
        ("min(jain over cc, rate) >= 0", vec![0]),
        ("min(jain over rate) >= 0", vec![0, 3]),
        ("min(jain over rate=2mbit..4mbit) >= 0", vec![0, 3]),
        ("min(jain[bbr3] over rate) >= 0", vec![0]),
        ("jain[bbr3] >= 0", vec![0, 1, 2]),
        ("jain >= min(jain over cc, rate)", vec![0, 1, 2, 3, 4, 5]),
        ("min(jain over cc) / axis(rate) >= 0", vec![0, 1, 2]),
        ("jain[rate=2mbit..4mbit] >= 0", vec![0, 1, 2, 3, 4, 5]),
    ] {
        let plan = grid(expect).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(check::points(&plan.expectations[0], &plan.grid), points, "{expect}");
    }
}

#[test]
fn a_pick_of_several_leaves_the_other_runs_out() {
    let v = judged("jain[bbr3, rate=2mbit..4mbit] <= 3", [9.0, 5.0, 3.0, 9.0, 9.0, 9.0]);
    assert_eq!((v.cases, v.unmet, v.value), (2, 1, Some(5.0)));
    assert_eq!(v.at, [("rate".to_owned(), "2mbit".to_owned())]);
    let v = judged("jain[1mbit..2mbit] <= 3", [1.0, 1.0, 9.0, 1.0, 1.0, 9.0]);
    assert_eq!((v.cases, v.met), (4, true));
}

#[test]
fn an_axis_is_the_number_of_its_value_in_the_run_at_hand() {
    let v = judged("jain[bbr3] / axis(rate) <= 2", [2.0, 4.0, 9.0, 0.0, 0.0, 0.0]);
    assert_eq!((v.cases, v.unmet, v.value), (3, 1, Some(2.25)));
}

#[test]
fn an_expectation_has_a_name() {
    let v = judged("bbr3: least share: jain[bbr3] >= 0.5", [1.0; 6]);
    assert_eq!((v.name.as_str(), v.comparison.as_str()), ("bbr3: least share", ">="));
    let v = judged(" 2 * jain[bbr3]>= 0.5", [1.0; 6]);
    assert_eq!(v.name, "2 * jain[bbr3]");
}

#[test]
fn a_value_that_is_not_there_meets_nothing() {
    let plan = grid("jain >= 0").expect("a plan");
    let rows = [&[Some(1.0)][..], &[None], &[Some(1.0)], &[Some(1.0)], &[Some(1.0)], &[Some(1.0)]];
    let v = &plan.judge(&rows)[0];
    assert_eq!((v.met, v.unmet, v.value), (false, 1, None));
    assert!(!judged("jain / 0 >= 1", [1.0; 6]).met, "a division by zero is no value");
}

#[test]
fn what_is_asked_twice_is_measured_once() {
    let plan = grid("jain[bbr3] + jain[cubic] >= jain from 1s to 2s").expect("a plan");
    assert_eq!(plan.probes.len(), 1);
    let window = plan.probes[0].window;
    assert_eq!(window.from, Some(Duration::from_secs(1)));
    assert_eq!(window.to, Some(Duration::from_secs(2)));
    let plan =
        grid("flow[late].share / flow[0].share > link[0].utilization before 2s").expect("one");
    assert_eq!(plan.probes.len(), 3);
}

#[test]
fn what_makes_no_sense_says_so_on_one_line() {
    for (expect, says) in [
        ("", "it ends where a metric or a number should come"),
        ("jain", "it ends where one of >=, <=, >, < and =="),
        ("jain = 1", "'= 1' stands where one of >=, <=, >, < and =="),
        ("1 >= 0.5", "there is no metric in it"),
        ("jain >= ", "it ends where a metric or a number"),
        ("jain >= 1 2", "'2' stands where the end, or a window"),
        ("jain >= (1 + 2", "where a ')' should come"),
        ("jain >= 1.2.3", "'1.2.3' is no number"),
        ("jain >= 5%", "'5%' has a unit"),
        ("jane >= 1", "'jane' is no metric; there are goodput_mbps"),
        ("queue_ms >= 1", "'queue_ms' is no metric"),
        ("share >= 1", "'share' is no metric; there"),
        ("flow[0].jain >= 1", "'jain' is no metric of a flow"),
        ("link[0].jain >= 1", "'jain' is no metric of a link"),
        ("flow.share >= 1", "which flow?"),
        ("flow[0] >= 1", "where a metric like '.goodput_mbps' should come"),
        ("flow[3].share >= 1", "flow[3] of 3"),
        ("flow[nobody].share >= 1", "no flow is called 'nobody'; there are bbr3, late"),
        ("link[1].utilization >= 1", "link[1] of 1"),
        ("link[a].utilization >= 1", "link[a] is no number"),
        ("jain[] >= 1", "[] picks nothing"),
        ("jain[bbr3 >= 1", "where a ']' should come"),
        ("jain[reno] >= 1", "no field's list has 'reno'"),
        ("jain[rtt=40ms] >= 1", "'rtt' is no field with a list; lists have cc, rate"),
        ("jain[rate=9mbit] >= 1", "no run has rate=9mbit"),
        ("jain >= 1 after noon", "'noon' is not a time"),
        ("jain >= 1 after 10s", "the window begins when the run is over; that lasts 10s"),
        ("jain >= 1 from 2s to 1s", "the window ends before it begins"),
        ("jain >= 1 from 2s until 3s", "'until 3s' stands where 'to' and a time"),
        ("max(jain) >= 1", "where 'over' and a field with a list"),
        ("max(jain over rtt) >= 1", "'rtt' is no field with a list; lists have cc, rate"),
        ("max(jain over rate=1mbit) >= 1", "where values like 1bdp..8bdp"),
        ("max(jain over rate=4mbit..1mbit) >= 1", "'4mbit..1mbit' runs backwards"),
        ("max(jain over rate=1mbit..9mbit) >= 1", "no run has rate=9mbit"),
        ("jain[1mbit..9mbit] >= 1", "no run has rate=9mbit"),
        ("jain >= axis(rtt)", "'rtt' is no field with a list"),
        ("until_s >= 1", "where a condition like (queue_ms <= 5)"),
        ("until_s(jain > 1) >= 1", "'jain' is no column of the series; there are goodput_mbps"),
        ("until_s(state > 1) >= 1", "where == or !="),
        ("until_s(state == Up) >= 1", "'Up' is no state; there are Startup"),
        ("until_s(queue_ms <= 5 >= 1", "where a ')' should come"),
        ("inflight_bytes.max >= 1", "inflight_bytes.max is measured by samples; write how often"),
        ("link[0].srtt_ms.max >= 1", "is no metric of a link"),
        ("jain >= 1 during 3s", "'during 3s' stands where a window"),
    ] {
        let said = grid(expect).expect_err(expect);
        assert!(said.contains(says), "{expect} should say {says:?}: {said}");
        assert!(said.starts_with("x.toml:2: expect[0]: ") && !said.contains('\n'), "{said}");
    }
    let deep = format!("{}1{} >= jain", "(".repeat(4000), ")".repeat(4000));
    assert!(grid(&deep).expect_err("too deep").contains("more brackets"));
}

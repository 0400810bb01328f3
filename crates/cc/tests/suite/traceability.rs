//! Traceability: every function of the draft's pseudo-code has its counterpart, and says so.

use std::fs;
use std::path::Path;

/// The functions that draft-ietf-ccwg-bbr (edition of August 2026) defines in pseudo-code, and the
/// one that it has in prose only (CheckStartupHighLoss).
const FUNCTIONS: [&str; 85] = [
    "AdaptLongTermModel",
    "AdaptLowerBoundsFromCongestion",
    "AdvanceLatestDeliverySignals",
    "AdvanceMaxBwFilter",
    "BDPMultiple",
    "BoundBWForModel",
    "BoundCwndForModel",
    "BoundCwndForProbeRTT",
    "CheckDrainDone",
    "CheckFullBWReached",
    "CheckIfApplicationLimited",
    "CheckProbeRTT",
    "CheckProbeRTTDone",
    "CheckStartupDone",
    "CheckStartupHighLoss",
    "EnterDrain",
    "EnterProbeBW",
    "EnterProbeRTT",
    "EnterStartup",
    "ExitProbeRTT",
    "GenerateRateSample",
    "HandleInflightTooHigh",
    "HandleLostPacket",
    "HandleProbeRTT",
    "HandleRestartFromIdle",
    "HandleSpuriousLossDetection",
    "HasElapsedInPhase",
    "Inflight",
    "InflightAtLoss",
    "InflightWithHeadroom",
    "InitLowerBounds",
    "InitPacingRate",
    "InitRateSample",
    "InitRoundCounting",
    "InitWindowedMaxFilter",
    "IsInAProbeBWState",
    "IsInflightTooHigh",
    "IsNewestPacket",
    "IsProbingBW",
    "IsRenoCoexistenceProbeTime",
    "IsTimeToCruise",
    "IsTimeToGoDown",
    "IsTimeToProbeBW",
    "LossLowerBounds",
    "MarkConnectionAppLimited",
    "NoteLoss",
    "OnEnterFastRecovery",
    "OnEnterRTO",
    "OnInit",
    "OnPacketSent",
    "OnTransmit",
    "PickProbeWait",
    "ProbeInflightLongtermUpward",
    "ProbeRTTCwnd",
    "QuantizationBudget",
    "RaiseInflightLongtermSlope",
    "ResetCongestionSignals",
    "ResetFullBW",
    "ResetShortTermModel",
    "RestoreCwnd",
    "SaveCwnd",
    "SaveStateUponLoss",
    "SetCwnd",
    "SetPacingRate",
    "SetPacingRateWithGain",
    "SetSendQuantum",
    "StartProbeBW_CRUISE",
    "StartProbeBW_DOWN",
    "StartProbeBW_REFILL",
    "StartProbeBW_UP",
    "StartRound",
    "TargetInflight",
    "UpdateACKAggregation",
    "UpdateCongestionSignals",
    "UpdateControlParameters",
    "UpdateLatestDeliverySignals",
    "UpdateMaxBw",
    "UpdateMaxInflight",
    "UpdateMinRTT",
    "UpdateModelAndState",
    "UpdateOffloadBudget",
    "UpdateOnACK",
    "UpdateProbeBWCyclePhase",
    "UpdateRateSample",
    "UpdateRound",
];

fn sources(folder: &Path, text: &mut String) {
    for entry in fs::read_dir(folder).expect("the sources").flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, text);
        } else if path.extension().is_some_and(|e| e == "rs") {
            text.push_str(&fs::read_to_string(&path).expect("a source"));
        }
    }
}

/// A doc comment or comment that names the function stands where it is done.
#[test]
fn every_function_of_the_draft_has_a_counterpart() {
    let mut text = String::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut text);
    let comments: Vec<&str> = text.lines().filter(|l| l.trim_start().starts_with("//")).collect();
    let missing: Vec<&str> = FUNCTIONS
        .into_iter()
        // Not the end of a longer name: SetCwnd() is in ResetCwnd() too.
        .filter(|name| {
            let call = format!("{name}(");
            !comments.iter().any(|line| {
                line.match_indices(&call)
                    .any(|(at, _)| !line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_'))
            })
        })
        .collect();
    assert!(missing.is_empty(), "no counterpart of {missing:?}");
}

//! The warning about models that have ended or end soon.

use std::sync::LazyLock;
use std::time::SystemTime;

use crate::model::{Catalog, Date, ModelCard, ModelRequest};
use crate::run::RunContext;
use crate::util::panic;

/// The number of days before a model's end from which on runs warn of it.
const NOTICE_DAYS: i64 = 30;

/// The request with which models return their cards.
static ANY_REQUEST: LazyLock<ModelRequest> = LazyLock::new(ModelRequest::default);

/// Warns of each model that may answer in a run and has ended, or ends within 30 days. The parent
/// run warns of models that it may call as well.
pub(super) fn warn_of_ending_models(cx: &RunContext) {
    let mut ending_cards = cards(cx);
    ending_cards.retain(|card| card.profile.lifecycle.is_some());
    if ending_cards.is_empty() {
        return;
    }

    let parent_cards = cx.parent_run().map(cards).unwrap_or_default();
    let today = Date::from(SystemTime::now());
    for card in ending_cards {
        let is_of_parent = parent_cards.iter().any(|other| other.id == card.id);
        if let Some(text) = notice(&card, today).filter(|_| !is_of_parent) {
            cx.warn(text);
        }
    }
}

/// Returns the models that may answer in a run. A panic of the model is ignored here: its first
/// call reports it.
fn cards(cx: &RunContext) -> Vec<ModelCard> {
    let model = cx.model();
    panic::catch(|| model.cards(&ANY_REQUEST)).unwrap_or_default()
}

/// Returns the warning about a model on the day `today`, or `None` if its end is not near.
fn notice(card: &ModelCard, today: Date) -> Option<String> {
    let ends = card.profile.lifecycle?.ends?;
    let time = match today.days_until(ends) {
        days if days > NOTICE_DAYS => return None,
        days if days < 0 => format!("ended on {ends}"),
        0 => format!("ends on {ends} (today)"),
        1 => format!("ends on {ends} (tomorrow)"),
        days => format!("ends on {ends} (in {days} days)"),
    };

    let ending = Catalog::builtin().ending(&card.id);
    let advice = match ending.and_then(|one| one.replacement.as_deref()) {
        Some(replacement) => format!("use {replacement}"),
        None => "choose another model".to_owned(),
    };
    Some(format!("the model {:?} {time}; {advice}", card.id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Lifecycle, ModelProfile};

    fn ending(id: &str) -> ModelCard {
        let ends = Date::new(2026, 11, 30).expect("a date");
        let dates = Lifecycle::default().with_ends(ends);
        ModelCard::new(id, ModelProfile::default().with_lifecycle(dates))
    }

    #[test]
    fn notice_is_given_from_30_days_before_the_end() {
        let card = ending("mine:old");
        for (today, time) in [
            ("2026-01-01", None),
            ("2026-10-30", None),
            ("2026-10-31", Some("ends on 2026-11-30 (in 30 days)")),
            ("2026-11-28", Some("ends on 2026-11-30 (in 2 days)")),
            ("2026-11-29", Some("ends on 2026-11-30 (tomorrow)")),
            ("2026-11-30", Some("ends on 2026-11-30 (today)")),
            ("2026-12-01", Some("ended on 2026-11-30")),
            ("2030-01-01", Some("ended on 2026-11-30")),
        ] {
            let text =
                time.map(|time| format!("the model \"mine:old\" {time}; choose another model"));
            assert_eq!(
                notice(&card, today.parse().expect("a date")),
                text,
                "{today}"
            );
        }
    }

    #[test]
    fn notice_names_the_model_to_use_instead() {
        let today = "2026-11-23".parse().expect("a date");
        let expected = "the model \"anthropic:claude-sonnet-4-5\" ends on 2026-11-30 (in 7 days); \
                        use claude-sonnet-5";
        let text = notice(&ending("anthropic:claude-sonnet-4-5"), today);
        assert_eq!(text.as_deref(), Some(expected));
    }

    #[test]
    fn model_without_an_end_has_no_notice() {
        let today = "2026-11-23".parse().expect("a date");
        let announced = Lifecycle::default().with_deprecated(today);
        for profile in [
            ModelProfile::default(),
            ModelProfile::default().with_lifecycle(Lifecycle::default()),
            ModelProfile::default().with_lifecycle(announced),
        ] {
            assert_eq!(notice(&ModelCard::new("mine:new", profile), today), None);
        }
    }
}

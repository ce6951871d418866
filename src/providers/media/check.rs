//! The check of media before a request is sent.

use crate::error::{Error, ErrorKind, Result};
use crate::message::{Media, MediaSource, Part, Role};
use crate::model::ModelRequest;
use crate::util::text::{quoted, truncate};

use super::placeholder::{MAX_TYPE, media_of, text_of};

/// The model that a request is for.
#[derive(Clone, Copy)]
pub(in crate::providers) struct Target<'a> {
    /// The name of the model.
    pub(in crate::providers) model: &'a str,
    /// True if the model accepts images.
    pub(in crate::providers) takes_images: bool,
    /// The subject of an error about media without a form: the API, or a model that accepts less.
    pub(in crate::providers) api: &'a str,
}

/// Checks the media of the inputs after the last answer. `takes` is true for media that the API has
/// a form for; documents of text have one everywhere. Media of results and of older messages are
/// not checked: they become text.
///
/// # Errors
///
/// Returns [`ErrorKind::InvalidRequest`] for media that the API has no form for, and for an image
/// to a model that accepts none.
pub(in crate::providers) fn check(
    request: &ModelRequest,
    target: Target<'_>,
    takes: impl Fn(&Part) -> bool,
) -> Result<()> {
    let newest = request.messages.as_slice().iter().rev();
    let inputs = newest
        .take_while(|message| message.role() != Role::Assistant)
        .filter(|message| message.role() == Role::User);
    for part in inputs.flat_map(|message| message.content().parts()) {
        let Some((kind, media)) = media_of(part) else {
            continue;
        };

        if matches!(part, Part::Image(_)) && !target.takes_images {
            let text = format!(
                "the model {} accepts no images; use another one, or set \
                 ModelProfile::with_images if it does",
                quoted(target.model)
            );
            return Err(Error::new(ErrorKind::InvalidRequest, text));
        }

        if !takes(part) && text_of(part).is_none() {
            let (api, form) = (target.api, describe_form(media));
            let text = format!(
                "{api} takes no {kind} in this form ({form}); send it in another, or as text"
            );
            return Err(Error::new(ErrorKind::InvalidRequest, text));
        }
    }

    Ok(())
}

fn describe_form(media: &Media) -> String {
    match &media.source {
        MediaSource::Base64(_) if media.media_type.is_empty() => "data".to_owned(),
        MediaSource::Base64(_) => truncate(&media.media_type, MAX_TYPE).into_owned(),
        MediaSource::Url(_) => "an address".to_owned(),
        MediaSource::File { provider, .. } => {
            format!("a file of {}", truncate(provider, MAX_TYPE))
        }
    }
}

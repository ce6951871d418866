//! Media as an address.

use std::borrow::Cow;

use crate::message::{Media, MediaSource};

/// Returns the URL or the file id of media; data is returned as a `data:` URL.
pub(in crate::providers) fn address<'a>(media: &'a Media, default_type: &str) -> Cow<'a, str> {
    match &media.source {
        MediaSource::Url(place) | MediaSource::File { id: place, .. } => Cow::Borrowed(place),
        MediaSource::Base64(data) => {
            let kind = match &*media.media_type {
                "" => default_type,
                kind => kind,
            };
            Cow::Owned(format!("data:{kind};base64,{data}"))
        }
    }
}

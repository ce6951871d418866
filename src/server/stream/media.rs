//! Media in requests.

use crate::error::{Error, ErrorKind, Result};
use crate::message::Media;

/// Returns the media at an address: a `data:` URL in base64, or a URL that the provider fetches.
pub(super) fn media(url: &str, media_type: Option<&str>) -> Result<Media> {
    if let Some(data) = url.strip_prefix("data:") {
        let Some((head, data)) = data.split_once(',') else {
            return Err(invalid("a data URL has no comma"));
        };
        let Some(declared_type) = head.strip_suffix(";base64") else {
            return Err(invalid("a data URL is not in base64"));
        };
        let declared_type = declared_type.split(';').next().unwrap_or_default();
        let media_type = media_type.unwrap_or(declared_type);
        return Ok(Media::base64(media_type, data));
    }

    if !url.starts_with("https://") && !url.starts_with("http://") {
        return Err(invalid("the URL of a file is not https, http or data"));
    }
    let mut media = Media::url(url);
    if let Some(media_type) = media_type {
        media.media_type = media_type.into();
    }
    Ok(media)
}

fn invalid(text: &str) -> Error {
    let text = format!("{text}; send a data URL such as data:image/png;base64,AAAA");
    Error::new(ErrorKind::InvalidRequest, text)
}

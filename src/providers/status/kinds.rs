//! The kinds of errors, from the statuses and codes of servers.

use crate::error::ErrorKind;

use super::google::QUOTA_PER_DAY;
use super::refusal::Refusal;

/// Returns `true` if a spend limit or a quota is used up: waiting does not help.
fn is_quota(refusal: &Refusal) -> bool {
    let by_code = refusal.has_code(|code| {
        matches!(
            code,
            "insufficient_quota"
                | "credit_balance_exhausted"
                | "billing_hard_limit_reached"
                | "billing_not_active"
                | "billing_error"
                | "enforced_spend_limit_reached"
                | "organization_usage_limit_exceeded"
                | "exceeded_current_quota_error"
                | QUOTA_PER_DAY
                | "402"
        ) || code.ends_with("_spend_limit_exceeded")
    });

    by_code
        || contains_any(
            &refusal.message,
            &[
                "credit balance is too low",
                // Anthropic: a limit that the account or the workspace has set.
                "you have reached your specified",
            ],
        )
}

/// Returns `true` if the prompt does not fit into the context window.
fn is_context(refusal: &Refusal) -> bool {
    let by_code = refusal.has_code(|code| {
        matches!(
            code,
            "context_length_exceeded" | "exceed_context_size_error"
        )
    });
    // The code is used for any text over its limit, such as a call's id.
    let is_long_text = refusal.has_code(|code| code == "string_above_max_length")
        && contains_any(
            &refusal.message,
            &[".content", ".text", "'input'", ".arguments", ".output"],
        );

    by_code
        || is_long_text
        || contains_any(
            &refusal.message,
            &[
                "prompt is too long",
                "exceed context limit",
                "maximum context length",
                "maximum model length",
                "exceeds the available context size",
                "exceeds the context window",
                "exceeds the context length",
                "exceeds context length",
                "context length exceeded",
                "context size has been exceeded",
                "context window is full",
                "larger than the context",
                "longer than the model's context",
                // Gemini.
                "exceeds the maximum number of tokens allowed",
                // xAI.
                "maximum prompt length",
                // LM Studio.
                "greater than the context length",
                "when context the overflows",
                // Ollama.
                "exceeded max context length",
                // Moonshot.
                "exceeded model token limit",
                // Z.ai.
                "prompt exceeds max length",
                // Claude on Bedrock.
                "input is too long for requested model",
            ],
        )
}

/// Returns `true` if the prompt is against the provider's rules. `invalid_prompt` is also the code
/// of requests that are malformed, which are refused before the stream.
fn is_refused(status: Option<u16>, refusal: &Refusal) -> bool {
    let by_code = refusal.has_code(|code| match code {
        "content_filter"
        | "bio_policy"
        | "misalignment_policy_violation"
        | "image_content_policy_violation" => true,
        "invalid_prompt" => status.is_none(),
        _ => false,
    });

    by_code || refusal.is_flagged
}

/// Returns `true` if the model wrote a call or an object that the server cannot read (Groq). No
/// call of such an answer has run, and another request may succeed.
fn is_malformed_answer(refusal: &Refusal) -> bool {
    refusal.has_code(|code| matches!(code, "tool_use_failed" | "json_validate_failed"))
}

fn contains_any(text: &str, needles: &[&str]) -> bool {
    let text = text.to_lowercase();
    needles.iter().any(|needle| text.contains(needle))
}

/// Returns the kind of an error with this HTTP status, or of one inside a stream.
pub(super) fn kind_of(status: Option<u16>, refusal: &Refusal) -> ErrorKind {
    if status == Some(402) || is_quota(refusal) {
        return ErrorKind::QuotaExhausted;
    }

    if is_refused(status, refusal) {
        return ErrorKind::Refused;
    }

    // Google's status of an invalid key is 400.
    if refusal.has_code(|code| code == "API_KEY_INVALID") {
        return ErrorKind::Auth;
    }

    if matches!(status, None | Some(400 | 413 | 422 | 500)) && is_context(refusal) {
        return ErrorKind::ContextTooLong;
    }

    if matches!(status, None | Some(400)) && is_malformed_answer(refusal) {
        return ErrorKind::Server;
    }

    match status {
        Some(status) => kind_of_status(status),
        None => refusal
            .codes
            .iter()
            .find_map(|code| kind_of_code(code))
            .unwrap_or(ErrorKind::Server),
    }
}

fn kind_of_status(status: u16) -> ErrorKind {
    match status {
        401 => ErrorKind::Auth,
        403 => ErrorKind::PermissionDenied,
        404 => ErrorKind::NotFound,
        407 => ErrorKind::Proxy,
        408 | 499 => ErrorKind::Timeout,
        409 => ErrorKind::Conflict,
        413 => ErrorKind::RequestTooLarge,
        429 => ErrorKind::RateLimited,
        503 | 529 => ErrorKind::Overloaded,
        400..=499 => ErrorKind::InvalidRequest,
        500..=599 => ErrorKind::Server,
        // A redirect among others: not followed, because it would carry the key elsewhere.
        _ => ErrorKind::Protocol,
    }
}

fn kind_of_code(code: &str) -> Option<ErrorKind> {
    Some(match code {
        "invalid_request_error"
        | "invalid_encrypted_content"
        | "data_residency_mismatch"
        | "INVALID_ARGUMENT"
        | "FAILED_PRECONDITION"
        | "OUT_OF_RANGE" => ErrorKind::InvalidRequest,
        "invalid_image"
        | "invalid_image_format"
        | "invalid_base64_image"
        | "invalid_image_url"
        | "invalid_image_mode"
        | "image_too_large"
        | "image_too_small"
        | "image_parse_error"
        | "image_file_too_large"
        | "image_file_not_found"
        | "unsupported_image_media_type"
        | "empty_image_file"
        | "failed_to_download_image" => ErrorKind::InvalidRequest,
        "authentication_error" | "invalid_api_key" | "UNAUTHENTICATED" => ErrorKind::Auth,
        "permission_error" | "PERMISSION_DENIED" => ErrorKind::PermissionDenied,
        "not_found_error" | "model_not_found" | "NOT_FOUND" => ErrorKind::NotFound,
        "conflict_error" | "ABORTED" | "ALREADY_EXISTS" => ErrorKind::Conflict,
        "request_too_large" => ErrorKind::RequestTooLarge,
        "rate_limit_error"
        | "rate_limit_exceeded"
        | "requests"
        | "tokens"
        | "RESOURCE_EXHAUSTED" => ErrorKind::RateLimited,
        "timeout_error" | "vector_store_timeout" | "DEADLINE_EXCEEDED" | "CANCELLED" => {
            ErrorKind::Timeout
        }
        "overloaded_error" | "unavailable_error" | "UNAVAILABLE" => ErrorKind::Overloaded,
        "api_error" | "server_error" | "internal_error" | "INTERNAL" | "UNKNOWN" | "DATA_LOSS"
        | "UNIMPLEMENTED" => ErrorKind::Server,
        number => match number.parse() {
            Ok(status @ 400..=599) => kind_of_status(status),
            _ => return None,
        },
    })
}

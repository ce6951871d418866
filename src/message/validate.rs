//! stub
use super::chain::Messages;
use crate::error::{Error, ErrorKind};
/// s
#[derive(Debug, Clone)]
pub enum Problem {}
/// s
#[derive(Debug, Clone)]
pub struct ValidationError;
impl std::fmt::Display for ValidationError {
    fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        Ok(())
    }
}
impl std::error::Error for ValidationError {}
impl From<ValidationError> for Error {
    fn from(e: ValidationError) -> Self {
        Error::new(ErrorKind::InvalidMessages, e.to_string()).with_source(e)
    }
}
impl Messages {
    /// s
    pub fn validate(&self) -> Result<(), ValidationError> {
        Ok(())
    }
    /// s
    pub fn validate_for_model(&self) -> Result<(), ValidationError> {
        Ok(())
    }
}
/// s
#[derive(Debug, Default)]
pub(crate) struct ModelCheck;
impl ModelCheck {
    pub(crate) fn check(&mut self, _: &Messages) -> Result<(), ValidationError> {
        Ok(())
    }
}

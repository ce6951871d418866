//! The table of routes: each with its handler and its description.

use axum::Router;
use axum::handler::Handler;
use axum::routing::{MethodFilter, on};
use schemars::{JsonSchema, Schema, SchemaGenerator};

use super::app::App;

/// Makes the schema of a type.
pub(super) type MakeSchema = fn(&mut SchemaGenerator) -> Schema;

/// The method of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Get,
    Post,
    Patch,
    Delete,
}

impl Verb {
    fn filter(self) -> MethodFilter {
        match self {
            Self::Get => MethodFilter::GET,
            Self::Post => MethodFilter::POST,
            Self::Patch => MethodFilter::PATCH,
            Self::Delete => MethodFilter::DELETE,
        }
    }

    /// Returns the name in an OpenAPI document.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Post => "post",
            Self::Patch => "patch",
            Self::Delete => "delete",
        }
    }
}

/// The body of a successful response.
#[derive(Clone, Copy)]
pub(super) enum ReplyBody {
    /// None.
    Empty,
    /// JSON.
    Json(MakeSchema),
    /// A stream of a run, in the format that the request chooses.
    Stream,
    /// JSON, or a stream if the request asks for one.
    JsonOrStream(MakeSchema),
    /// Bytes of this type.
    Bytes(&'static str),
}

/// A parameter of the query or a header.
#[derive(Clone, Copy)]
pub(super) struct Parameter {
    pub(super) name: &'static str,
    /// `query` or `header`.
    pub(super) place: &'static str,
    pub(super) text: &'static str,
    pub(super) is_required: bool,
    pub(super) schema: MakeSchema,
}

/// The description of a route.
pub(super) struct Operation {
    pub(super) verb: Verb,
    pub(super) path: &'static str,
    pub(super) summary: &'static str,
    pub(super) group: &'static str,
    pub(super) body: Option<MakeSchema>,
    pub(super) is_body_required: bool,
    pub(super) status: u16,
    pub(super) reply: ReplyBody,
    pub(super) parameters: Vec<Parameter>,
    /// The statuses of errors in addition to the errors of all routes, with their causes.
    pub(super) errors: Vec<(u16, &'static str)>,
    pub(super) is_admin: bool,
    pub(super) is_public: bool,
}

impl Operation {
    pub(super) fn new(
        verb: Verb,
        path: &'static str,
        group: &'static str,
        summary: &'static str,
    ) -> Self {
        Self {
            verb,
            path,
            summary,
            group,
            body: None,
            is_body_required: true,
            status: 200,
            reply: ReplyBody::Empty,
            parameters: Vec::new(),
            errors: Vec::new(),
            is_admin: false,
            is_public: false,
        }
    }

    /// Sets the type of the body.
    pub(super) fn body<T: JsonSchema>(mut self) -> Self {
        self.body = Some(|generator| generator.subschema_for::<T>());
        self
    }

    /// Sets the type of a body that may be omitted.
    pub(super) fn optional_body<T: JsonSchema>(mut self) -> Self {
        self.is_body_required = false;
        self.body::<T>()
    }

    /// Sets the type of the reply.
    pub(super) fn reply<T: JsonSchema>(mut self) -> Self {
        self.reply = ReplyBody::Json(|generator| generator.subschema_for::<T>());
        self
    }

    pub(super) fn stream(mut self) -> Self {
        self.reply = ReplyBody::Stream;
        self
    }

    pub(super) fn reply_or_stream<T: JsonSchema>(mut self) -> Self {
        self.reply = ReplyBody::JsonOrStream(|generator| generator.subschema_for::<T>());
        self
    }

    pub(super) fn bytes(mut self, content_type: &'static str) -> Self {
        self.reply = ReplyBody::Bytes(content_type);
        self
    }

    /// Sets the status of success.
    pub(super) fn status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    /// Adds a parameter of the query.
    pub(super) fn query<T: JsonSchema>(mut self, name: &'static str, text: &'static str) -> Self {
        self.parameters.push(Parameter {
            name,
            place: "query",
            text,
            is_required: false,
            schema: |generator| generator.subschema_for::<T>(),
        });
        self
    }

    /// Makes the parameter that was added last a required one.
    pub(super) fn required(mut self) -> Self {
        if let Some(parameter) = self.parameters.last_mut() {
            parameter.is_required = true;
        }
        self
    }

    /// Adds a header of the request.
    pub(super) fn header(mut self, name: &'static str, text: &'static str) -> Self {
        self.parameters.push(Parameter {
            name,
            place: "header",
            text,
            is_required: false,
            schema: |generator| generator.subschema_for::<String>(),
        });
        self
    }

    /// Adds an error to the errors of all routes.
    pub(super) fn fails(mut self, status: u16, cause: &'static str) -> Self {
        self.errors.push((status, cause));
        self
    }

    /// Marks a route for admins.
    pub(super) fn admin(mut self) -> Self {
        self.is_admin = true;
        self
    }

    /// Marks a route without a token.
    pub(super) fn public(mut self) -> Self {
        self.is_public = true;
        self
    }
}

/// The routes that were added: their handlers and their descriptions.
#[derive(Default)]
pub(super) struct Api {
    pub(super) router: Router<App>,
    pub(super) operations: Vec<Operation>,
}

impl Api {
    /// Adds a route.
    pub(super) fn route<H, T>(mut self, operation: Operation, handler: H) -> Self
    where
        H: Handler<T, App>,
        T: 'static,
    {
        let method_router = on(operation.verb.filter(), handler);
        self.router = self.router.route(operation.path, method_router);
        self.operations.push(operation);
        self
    }
}

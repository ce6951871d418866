//! The differences between the servers that speak Chat Completions.
//!
//! Sources: the documentation of the servers, the clients of Mistral and of pydantic-ai.

/// The types of images that OpenAI's models take as data. Data without a type is taken for PNG.
pub(in crate::providers) const IMAGE_TYPES: &[&str] = &[
    "",
    "image/png",
    "image/jpeg",
    "image/jpg",
    "image/webp",
    "image/gif",
];

/// The variant of Chat Completions that one server speaks.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Rules {
    /// The tag of the blocks of the server's answers; an unknown server that was named has a tag
    /// of its own. A server receives only blocks with its tag.
    pub(super) tag: &'static str,
    /// The hosts of the server; subdomains belong to it, too.
    pub(super) hosts: &'static [&'static str],
    /// The header of the key; `None` for a bearer token.
    pub(super) key_header: Option<&'static str>,
    /// The field of the output limit.
    pub(super) max_tokens_field: &'static str,
    /// True if usage in the stream has to be requested.
    pub(super) has_stream_options: bool,
    /// The field of the seed, if there is one.
    pub(super) seed: Option<&'static str>,
    pub(super) has_top_k: bool,
    pub(super) has_stop: bool,
    pub(super) call_ids: CallIdForm,
    pub(super) reasoning: SentReasoning,
    pub(super) thinking: ThinkingField,
    pub(super) schemas: SchemaForm,
    /// True if system messages may stand after the first message. Where they may not, they are text
    /// of the user.
    pub(super) takes_later_system: bool,
    /// True if an answer must stand between results and a message of the user.
    pub(super) needs_answer_after_results: bool,
    /// True if results have the name of their tool.
    pub(super) names_results: bool,
    /// True if some models of the server check signatures: the first call of each answer then needs
    /// one.
    pub(super) signs_calls: bool,
    /// The types of images that are taken as data; empty for all.
    pub(super) image_types: &'static [&'static str],
    pub(super) documents: DocumentForm,
    pub(super) audio: AudioForm,
    /// A part of the names of the models that take recordings; empty for all.
    pub(super) audio_models: &'static str,
    /// True if pieces of reasoning may arrive twice.
    pub(super) repeats_reasoning: bool,
    pub(super) output: OutputCount,
    /// The places at which the context window is requested, in this order.
    pub(super) window_reports: &'static [WindowReport],
    /// True if the server counts the tokens of a request (`/chat/completions/input_tokens`).
    pub(super) counts_tokens: bool,
}

/// The place at which a server reports the context window of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WindowReport {
    /// `/props`, of llama.cpp.
    Props,
    /// `/v1/models`, of vLLM.
    Models,
    /// `/api/v0/models`, of LM Studio.
    LmStudio,
}

/// The form in which a server takes documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DocumentForm {
    None,
    /// A file with its data.
    File,
    /// A file with the data of a PDF, or the id of a PDF that OpenAI has.
    Pdf,
    /// An address, or an address that contains the data of a PDF.
    Address,
}

/// The form in which a server takes recordings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AudioForm {
    None,
    /// The data and the name of its format: `wav` or `mp3`.
    Named,
    /// The data or an address, whose format the server recognizes.
    Bare,
}

/// The count of output tokens that a server reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OutputCount {
    Whole,
    /// Without the tokens of the reasoning, which are reported separately.
    WithoutReasoning,
    /// Perhaps without the tokens of the reasoning, which are in the total.
    Remainder,
}

/// The ids of calls that a server takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallIdForm {
    /// 40 bytes at most.
    Short,
    /// Nine letters or digits.
    NineCharacters,
}

/// The reasoning that goes back to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SentReasoning {
    Never,
    /// The fields of the server's own answers.
    Own,
    /// The chunks of thinking in the content of the server's own answers, and no fields.
    Chunks,
    /// The fields of the server's own answers, and `reasoning_content` in every answer of a
    /// conversation with tools.
    OwnOrEmpty,
}

/// The field that switches thinking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ThinkingField {
    /// `reasoning_effort`, with the words of OpenAI's models.
    OpenAi,
    /// `reasoning_effort`, with the words of the first entry that the model's name begins with.
    /// Models of no entry receive the effort as given.
    Efforts(&'static [(&'static str, &'static [&'static str])]),
    /// `reasoning_effort` with DeepSeek's three words, and `thinking`. Models think by default, and
    /// take no forced tool then.
    DeepSeek,
    /// `reasoning`, an object.
    OpenRouter,
    /// `reasoning_effort`, and a switch for the template of the model.
    Template,
}

/// The schemas of an answer that a server takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SchemaForm {
    Any,
    /// Schemas of one object. Others are sent in words.
    Objects,
    /// None: the schema is sent in words, and an object is required as `json_object`.
    Words,
}

/// The rules of an unknown server. Many servers have templates of models that accept no later
/// system messages.
pub(super) static UNKNOWN: Rules = Rules {
    takes_later_system: false,
    window_reports: &[
        WindowReport::Props,
        WindowReport::Models,
        WindowReport::LmStudio,
    ],
    ..LENIENT
};

/// The rules that most servers share. These servers ignore unknown fields, and report no context
/// window.
const LENIENT: Rules = Rules {
    tag: super::PROVIDER,
    hosts: &[],
    key_header: None,
    max_tokens_field: "max_tokens",
    has_stream_options: true,
    seed: Some("seed"),
    has_top_k: true,
    has_stop: true,
    call_ids: CallIdForm::Short,
    reasoning: SentReasoning::Own,
    thinking: ThinkingField::OpenAi,
    schemas: SchemaForm::Any,
    takes_later_system: true,
    needs_answer_after_results: false,
    names_results: false,
    signs_calls: false,
    image_types: &[],
    documents: DocumentForm::File,
    audio: AudioForm::Named,
    audio_models: "",
    repeats_reasoning: false,
    output: OutputCount::Whole,
    window_reports: &[],
    counts_tokens: false,
};

pub(super) static OPENAI: Rules = STRICT;

/// The rules for OpenAI's models, at OpenAI's own server and on Azure. The servers return no
/// reasoning, and refuse that of other servers and unknown fields.
const STRICT: Rules = Rules {
    hosts: &["api.openai.com"],
    max_tokens_field: "max_completion_tokens",
    has_top_k: false,
    reasoning: SentReasoning::Never,
    schemas: SchemaForm::Objects,
    image_types: IMAGE_TYPES,
    documents: DocumentForm::Pdf,
    audio_models: "audio",
    ..LENIENT
};

pub(super) static AZURE: Rules = Rules {
    tag: "azure",
    hosts: &[
        "openai.azure.com",
        "cognitiveservices.azure.com",
        "services.ai.azure.com",
    ],
    key_header: Some("api-key"),
    // Azure takes PDF on the Responses API alone.
    documents: DocumentForm::None,
    ..STRICT
};

pub(super) static OPENROUTER: Rules = Rules {
    tag: "openrouter",
    hosts: &["openrouter.ai"],
    thinking: ThinkingField::OpenRouter,
    ..LENIENT
};

pub(super) static DEEPSEEK: Rules = Rules {
    tag: "deepseek",
    hosts: &["api.deepseek.com"],
    reasoning: SentReasoning::OwnOrEmpty,
    thinking: ThinkingField::DeepSeek,
    schemas: SchemaForm::Words,
    documents: DocumentForm::None,
    audio: AudioForm::None,
    ..LENIENT
};

/// Mistral refuses unknown fields, including the fields of other providers' reasoning, and checks
/// the order of roles.
pub(super) static MISTRAL: Rules = Rules {
    tag: "mistral",
    hosts: &["api.mistral.ai"],
    has_stream_options: false,
    seed: Some("random_seed"),
    has_top_k: false,
    call_ids: CallIdForm::NineCharacters,
    reasoning: SentReasoning::Chunks,
    takes_later_system: false,
    needs_answer_after_results: true,
    documents: DocumentForm::Address,
    audio: AudioForm::Bare,
    audio_models: "voxtral",
    thinking: ThinkingField::Efforts(&[(
        "",
        &["none", "minimal", "low", "medium", "high", "xhigh", "max"],
    )]),
    ..LENIENT
};

pub(super) static GROQ: Rules = Rules {
    tag: "groq",
    hosts: &["api.groq.com"],
    max_tokens_field: "max_completion_tokens",
    has_top_k: false,
    documents: DocumentForm::None,
    audio: AudioForm::None,
    thinking: ThinkingField::Efforts(&[
        ("openai/gpt-oss", &["low", "medium", "high"]),
        ("qwen/qwen3", &["none", "default"]),
    ]),
    ..LENIENT
};

pub(super) static XAI: Rules = Rules {
    tag: "xai",
    hosts: &["api.x.ai"],
    max_tokens_field: "max_completion_tokens",
    has_top_k: false,
    has_stop: false,
    documents: DocumentForm::None,
    audio: AudioForm::None,
    repeats_reasoning: true,
    output: OutputCount::WithoutReasoning,
    thinking: ThinkingField::Efforts(&[
        ("grok-4.3", &["none", "low", "medium", "high"]),
        ("grok-4.5", &["low", "medium", "high"]),
        ("grok-4.6", &["low", "medium", "high"]),
        ("grok-4.7", &["low", "medium", "high", "xhigh"]),
    ]),
    ..LENIENT
};

/// Gemini through Google's own form of the API. Fields that it does not know are refused.
pub(super) static GEMINI: Rules = Rules {
    tag: "gemini-openai",
    hosts: &["generativelanguage.googleapis.com"],
    seed: None,
    has_top_k: false,
    names_results: true,
    signs_calls: true,
    documents: DocumentForm::None,
    output: OutputCount::Remainder,
    ..LENIENT
};

pub(super) static BEDROCK: Rules = Rules {
    tag: "bedrock",
    hosts: &["api.aws"],
    seed: None,
    has_top_k: false,
    thinking: ThinkingField::Efforts(&[("openai.gpt-oss", &["low", "medium", "high"])]),
    documents: DocumentForm::None,
    audio: AudioForm::None,
    ..LENIENT
};

pub(super) static VLLM: Rules = Rules {
    tag: "vllm",
    window_reports: &[WindowReport::Models],
    thinking: ThinkingField::Template,
    takes_later_system: false,
    documents: DocumentForm::None,
    ..LENIENT
};

pub(super) static LLAMA_CPP: Rules = Rules {
    tag: "llamacpp",
    window_reports: &[WindowReport::Props],
    counts_tokens: true,
    thinking: ThinkingField::Template,
    takes_later_system: false,
    documents: DocumentForm::None,
    ..LENIENT
};

pub(super) static LM_STUDIO: Rules = Rules {
    tag: "lmstudio",
    window_reports: &[WindowReport::LmStudio],
    takes_later_system: false,
    documents: DocumentForm::None,
    audio: AudioForm::None,
    ..LENIENT
};

/// The servers that are recognized by their host.
pub(super) static HOSTED: &[&Rules] = &[
    &OPENAI,
    &AZURE,
    &OPENROUTER,
    &DEEPSEEK,
    &MISTRAL,
    &GROQ,
    &XAI,
    &GEMINI,
    &BEDROCK,
];

//! The plan of a case: plain data, so that a failing case can be printed and shrunk.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

/// One case: a stored session, a model that follows a script, tools, hooks and options.
#[derive(Clone, Debug)]
pub struct Plan {
    pub stored: Vec<Said>,
    /// The number of messages that a stored summary covers.
    pub covered: Option<usize>,
    pub input: Vec<Said>,
    pub script: Vec<Step>,
    pub hooks: Vec<HookPlan>,
    /// The replies to questions, in order; after them the responder is dropped. `None`: no
    /// responder.
    pub replies: Option<Vec<Reply>>,
    pub park: bool,
    pub partials: bool,
    pub wrap_up: bool,
    pub keep_refused: bool,
    pub max_turns: u32,
    /// The quarters of a history that a compaction covers.
    pub compacts: Option<usize>,
}

/// A message of a stored history or an input, valid or not.
#[derive(Clone, Debug)]
pub enum Said {
    System(&'static str),
    Human(&'static str),
    /// Parts of a user's message, one of them possibly empty.
    Humans(Vec<&'static str>),
    HumanCalls(&'static str),
    Ai(&'static str),
    Thinks(bool),
    /// Text and calls: id, name, and whether the arguments can be read.
    Calls(&'static str, Vec<(&'static str, &'static str, bool)>),
    Result(&'static str, &'static str, &'static str),
}

/// The response to one request.
#[derive(Clone, Debug)]
pub enum Step {
    Answer {
        thinks: bool,
        text: &'static str,
        calls: Vec<Call>,
        stop: Stop,
    },
    /// The stream ends without its last event.
    Truncated(&'static str, bool),
    /// The stream fails after this text.
    Breaks(&'static str, Failure),
    /// The request fails.
    Fails(Failure),
    /// The stream emits this text, and then hangs.
    Hangs(&'static str),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Stop {
    Natural,
    MaxTokens,
    Refusal,
    PauseTurn,
    Sequence,
    ToolUse,
    Silent,
}

#[derive(Clone, Copy, Debug)]
pub enum Failure {
    Overloaded,
    Truncated,
    Auth,
    TooLong,
    Refused,
}

/// A call of the model, whose arguments control its tool, the gate and the hooks.
#[derive(Clone, Debug)]
pub struct Call {
    pub id: &'static str,
    pub tool: &'static str,
    pub act: Act,
    pub gate: Gate,
    pub readable: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Act {
    Ok,
    Blank,
    EmptyParts,
    ForeignParts,
    Error,
    Panic,
    Hang,
    Yield(u8),
    Progress(u8),
    Ask,
    State,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Gate {
    Allow,
    Ask,
    Deny,
    Interrupt,
    Fail,
    Rewrite,
    Spoil,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reply {
    Allow,
    AllowForSession,
    Edit,
    Deny,
    Leave,
}

/// A hook that acts in every `every`th call.
#[derive(Clone, Copy, Debug)]
pub struct HookPlan {
    pub every: usize,
    pub does: Does,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Does {
    BeforeFails,
    BeforePanics,
    BeforeSpoils,
    BeforeRegisters,
    RequestInjects,
    RequestSpoils,
    RequestFails,
    RequestHangs,
    ModelPasses,
    ModelTwice,
    ModelFails,
    ModelPanics,
    ModelReplaces(&'static str),
    ModelSpoils,
    ModelHangs,
    PreDenies,
    PreAsks,
    PreStops,
    PreRewrites,
    PreSpoils,
    PreContext(&'static str),
    PrePanics,
    /// Starts a task that outlives the turn, and never ends if `true`.
    PreSpawns(bool),
    ToolPasses,
    ToolTwice,
    ToolReplaces,
    ToolFails,
    ToolPanics,
    ToolHangs,
    PostEmpties,
    PostRenames,
    PostSpoils,
    PostFails,
    StopGoesOn(&'static str),
    StopSpoils,
    StopPanics,
    StopHangs,
    AfterFails,
    AfterPanics,
    AfterSpoils,
}

const TEXTS: [&str; 4] = ["one", "two three", "", " \n"];
/// Ids of calls. Cases repeat them, as models do.
const IDS: [&str; 6] = ["a", "b", "c", "call_1", "call_2", ""];
const TOOLS: [&str; 7] = ["par", "par2", "exc", "read", "idem", "nosuch", "not a name"];

fn text() -> impl Strategy<Value = &'static str> {
    prop_oneof![6 => Just(TEXTS[0]), 4 => Just(TEXTS[1]), 1 => Just(TEXTS[2]), 1 => Just(TEXTS[3])]
}

fn id() -> impl Strategy<Value = &'static str> {
    prop::sample::select(&IDS[..])
}

fn said() -> impl Strategy<Value = Said> {
    let called = (
        id(),
        prop::sample::select(&["par", "exc", ""][..]),
        prop::bool::weighted(0.8),
    );
    prop_oneof![
        1 => text().prop_map(Said::System),
        4 => text().prop_map(Said::Human),
        1 => vec(text(), 1..3).prop_map(Said::Humans),
        1 => id().prop_map(Said::HumanCalls),
        3 => text().prop_map(Said::Ai),
        1 => any::<bool>().prop_map(Said::Thinks),
        4 => (text(), vec(called, 1..4)).prop_map(|(text, calls)| Said::Calls(text, calls)),
        6 => (id(), prop::sample::select(&["par", "exc", ""][..]), text())
            .prop_map(|(id, name, text)| Said::Result(id, name, text)),
    ]
}

/// Mostly histories of well-behaved programs, and sometimes any messages.
fn stored() -> impl Strategy<Value = Vec<Said>> {
    let sensible = prop_oneof![
        Just(vec![Said::Human("one"), Said::Ai("two")]),
        Just(vec![
            Said::Human("one"),
            Said::Calls("", vec![("call_1", "par", true), ("b", "exc", true)]),
            Said::Result("call_1", "par", "one"),
            Said::Result("b", "exc", "one"),
            Said::Ai("two"),
        ]),
        Just(vec![
            Said::Human("one"),
            Said::Calls("two", vec![("a", "par", true), ("b", "exc", true)]),
            Said::Result("a", "par", "one"),
        ]),
    ];
    prop_oneof![3 => Just(vec![]), 2 => sensible, 3 => vec(said(), 0..8)]
}

fn input() -> impl Strategy<Value = Vec<Said>> {
    prop_oneof![
        8 => Just(vec![Said::Human("go")]),
        1 => Just(vec![Said::System("rules"), Said::Human("go")]),
        1 => Just(vec![Said::Human("go"), Said::System("rules"), Said::Human("on")]),
        1 => Just(vec![]),
        2 => vec(said(), 0..4),
    ]
}

fn act() -> impl Strategy<Value = Act> {
    use Act::*;
    prop_oneof![
        5 => Just(Ok),
        1 => Just(Blank),
        1 => Just(EmptyParts),
        1 => Just(ForeignParts),
        1 => Just(Error),
        1 => Just(Panic),
        1 => Just(Hang),
        2 => (0_u8..4).prop_map(Yield),
        2 => (0_u8..4).prop_map(Progress),
        1 => Just(Ask),
        1 => Just(State),
    ]
}

fn gate() -> impl Strategy<Value = Gate> {
    use Gate::*;
    prop_oneof![
        8 => Just(Allow),
        2 => Just(Ask),
        1 => Just(Deny),
        1 => Just(Interrupt),
        1 => Just(Fail),
        1 => Just(Rewrite),
        1 => Just(Spoil),
    ]
}

fn call() -> impl Strategy<Value = Call> {
    let tool = prop::sample::select(&TOOLS[..]);
    (id(), tool, act(), gate(), prop::bool::weighted(0.9)).prop_map(
        |(id, tool, act, gate, readable)| Call {
            id,
            tool,
            act,
            gate,
            readable,
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    let stop = prop_oneof![
        8 => Just(Stop::Natural),
        1 => Just(Stop::MaxTokens),
        1 => Just(Stop::Refusal),
        1 => Just(Stop::PauseTurn),
        1 => Just(Stop::Sequence),
        1 => Just(Stop::ToolUse),
        1 => Just(Stop::Silent),
    ];
    let failure = || {
        use Failure::*;
        prop::sample::select(&[Overloaded, Truncated, Auth, TooLong, Refused][..])
    };

    let calls = prop_oneof![2 => Just(vec![]), 5 => vec(call(), 1..6)];
    prop_oneof![
        10 => (prop::bool::weighted(0.2), text(), calls, stop).prop_map(
            |(thinks, text, calls, stop)| Step::Answer { thinks, text, calls, stop }
        ),
        1 => (text(), any::<bool>()).prop_map(|(text, call)| Step::Truncated(text, call)),
        1 => (text(), failure()).prop_map(|(text, failure)| Step::Breaks(text, failure)),
        1 => failure().prop_map(Step::Fails),
        1 => text().prop_map(Step::Hangs),
    ]
}

fn hook() -> impl Strategy<Value = HookPlan> {
    use Does::*;
    let does = prop::sample::select(
        &[
            BeforeFails,
            BeforePanics,
            BeforeSpoils,
            BeforeRegisters,
            RequestInjects,
            RequestInjects,
            RequestSpoils,
            RequestFails,
            RequestHangs,
            ModelPasses,
            ModelPasses,
            ModelTwice,
            ModelFails,
            ModelPanics,
            ModelReplaces("instead"),
            ModelReplaces(""),
            ModelSpoils,
            ModelHangs,
            PreDenies,
            PreAsks,
            PreStops,
            PreRewrites,
            PreSpoils,
            PreContext("note"),
            PreContext(""),
            PrePanics,
            PreSpawns(false),
            PreSpawns(true),
            ToolPasses,
            ToolTwice,
            ToolReplaces,
            ToolFails,
            ToolPanics,
            ToolHangs,
            PostEmpties,
            PostRenames,
            PostSpoils,
            PostFails,
            StopGoesOn("go on"),
            StopGoesOn(""),
            StopSpoils,
            StopPanics,
            StopHangs,
            AfterFails,
            AfterPanics,
            AfterSpoils,
        ][..],
    );
    (1_usize..4, does).prop_map(|(every, does)| HookPlan { every, does })
}

fn reply() -> impl Strategy<Value = Reply> {
    use Reply::*;
    prop::sample::select(&[Allow, AllowForSession, Edit, Deny, Leave][..])
}

/// Any plan.
pub fn plan() -> impl Strategy<Value = Plan> {
    let history = (stored(), option::weighted(0.15, 0_usize..9), input());
    let options = (
        option::weighted(0.5, vec(reply(), 0..4)),
        any::<bool>(),
        any::<bool>(),
        prop::bool::weighted(0.2),
        prop::bool::weighted(0.2),
        prop_oneof![Just(2_u32), Just(6)],
        option::weighted(0.2, 0_usize..6),
    );
    (history, vec(step(), 0..5), vec(hook(), 0..3), options).prop_map(
        |((stored, covered, input), script, hooks, options)| {
            let (replies, park, partials, wrap_up, keep_refused, max_turns, compacts) = options;
            Plan {
                stored,
                covered,
                input,
                script,
                hooks,
                replies,
                park,
                partials,
                wrap_up,
                keep_refused,
                max_turns,
                compacts,
            }
        },
    )
}

//! A sink that builds a document of limited size.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

use htmd::Node;
use html5ever::interface::{ElementFlags, NodeOrText, QuirksMode, TreeSink};
use html5ever::tendril::StrTendril;
use html5ever::{Attribute, ExpandedName, QualName};
use markup5ever_rcdom::{NodeData, RcDom};

type Handle = Rc<Node>;

/// The maximum number of elements and comments of a document: parts of the work grow with its
/// square.
const MAX_ELEMENTS: usize = 50_000;
/// The maximum number of attributes of all elements together. A reopened element repeats its
/// attributes.
const MAX_ATTRIBUTES: usize = 200_000;
/// The maximum length of the values of all attributes together, in bytes.
const MAX_VALUES: usize = 8 * 1024 * 1024;
/// The number of elements a template counts as: its contents have no parent, so their depth is not
/// seen.
const TEMPLATE_ELEMENTS: usize = 100;
/// The maximum nesting depth of elements; browsers stop at 512.
pub(super) const MAX_DEPTH: usize = 512;

/// An [`RcDom`] with limits, which sets a flag when one is reached.
#[derive(Default)]
pub(super) struct Sink {
    dom: RcDom,
    elements: Cell<usize>,
    attributes: Cell<usize>,
    /// The length of all values of attributes.
    values: Cell<usize>,
    full: Rc<Cell<bool>>,
}

impl Sink {
    /// Returns the flag that is set once the document has reached a limit. Parsing stops then.
    pub(super) fn full(&self) -> Rc<Cell<bool>> {
        self.full.clone()
    }

    fn count(&self, elements: usize) {
        self.elements.set(self.elements.get() + elements);
        if self.elements.get() > MAX_ELEMENTS {
            self.full.set(true);
        }
    }

    /// Counts attributes and returns them, or none once the document has reached a limit.
    fn counted(&self, attrs: Vec<Attribute>) -> Vec<Attribute> {
        let count = self.attributes.get() + attrs.len();
        self.attributes.set(count);
        let values: usize = attrs.iter().map(|attr| attr.value.len()).sum();
        let values = self.values.get() + values;
        self.values.set(values);
        if count > MAX_ATTRIBUTES || values > MAX_VALUES {
            self.full.set(true);
        }
        if self.full.get() { Vec::new() } else { attrs }
    }

    /// Returns the document so far.
    pub(super) fn root(&self) -> Handle {
        self.dom.document.clone()
    }

    fn mark_full_if_deep(&self, parent: &Handle) {
        let mut depth = 0;
        let mut node = Some(parent.clone());
        while let Some(inner) = node {
            depth += 1;
            node = parent_of(&inner);
        }
        if depth > MAX_DEPTH {
            self.full.set(true);
        }
    }
}

fn parent_of(node: &Handle) -> Option<Handle> {
    let parent = node.parent.take();
    let parent_node = parent.as_ref().and_then(Weak::upgrade);
    node.parent.set(parent);
    parent_node
}

/// Returns a node's parent, and which of its children it is.
fn place_of(node: &Handle) -> Option<(Handle, usize)> {
    let parent = parent_of(node)?;
    let is_node = |child: &Handle| Rc::ptr_eq(child, node);
    let index = parent.children.borrow().iter().rposition(is_node)?;
    Some((parent, index))
}

impl TreeSink for Sink {
    type Handle = Handle;
    type Output = ();
    type ElemName<'a> = ExpandedName<'a>;

    // The document is read from `dom` instead.
    fn finish(self) {}

    // Discarded: a hostile page has one per byte.
    fn parse_error(&self, _message: Cow<'static, str>) {}

    fn get_document(&self) -> Handle {
        self.dom.get_document()
    }

    fn elem_name<'a>(&'a self, target: &'a Handle) -> ExpandedName<'a> {
        self.dom.elem_name(target)
    }

    fn create_element(&self, name: QualName, attrs: Vec<Attribute>, flags: ElementFlags) -> Handle {
        self.count(if flags.template { TEMPLATE_ELEMENTS } else { 1 });
        self.dom.create_element(name, self.counted(attrs), flags)
    }

    fn create_comment(&self, _text: StrTendril) -> Handle {
        self.count(1);
        self.dom.create_comment(StrTendril::new())
    }

    fn create_pi(&self, _target: StrTendril, _data: StrTendril) -> Handle {
        // The converter ignores processing instructions.
        self.dom.create_comment(StrTendril::new())
    }

    fn append(&self, parent: &Handle, child: NodeOrText<Handle>) {
        if matches!(child, NodeOrText::AppendNode(_)) {
            self.mark_full_if_deep(parent);
        }
        self.dom.append(parent, child);
    }

    fn append_based_on_parent_node(
        &self,
        element: &Handle,
        previous: &Handle,
        child: NodeOrText<Handle>,
    ) {
        match parent_of(element) {
            Some(_) => self.append_before_sibling(element, child),
            None => self.append(previous, child),
        }
    }

    fn append_doctype_to_document(&self, _: StrTendril, _: StrTendril, _: StrTendril) {}

    fn get_template_contents(&self, target: &Handle) -> Handle {
        self.dom.get_template_contents(target)
    }

    fn same_node(&self, x: &Handle, y: &Handle) -> bool {
        self.dom.same_node(x, y)
    }

    fn set_quirks_mode(&self, mode: QuirksMode) {
        self.dom.set_quirks_mode(mode);
    }

    // `RcDom` searches from the first child on; the sibling is usually among the last.
    fn append_before_sibling(&self, sibling: &Handle, node: NodeOrText<Handle>) {
        let Some((parent, index)) = place_of(sibling) else {
            return;
        };

        let child = match node {
            NodeOrText::AppendNode(child) => {
                self.mark_full_if_deep(&parent);
                self.remove_from_parent(&child);
                child
            }
            NodeOrText::AppendText(text) => {
                let children = parent.children.borrow();
                if let Some(previous) = index.checked_sub(1)
                    && let NodeData::Text { contents } = &children[previous].data
                {
                    contents.borrow_mut().push_tendril(&text);
                    return;
                }

                let contents = RefCell::new(text);
                Node::new(NodeData::Text { contents })
            }
        };

        child.parent.set(Some(Rc::downgrade(&parent)));

        // Removing the child may have moved the sibling.
        let index = place_of(sibling).map_or(index, |(_, index)| index);
        parent.children.borrow_mut().insert(index, child);
    }

    fn add_attrs_if_missing(&self, target: &Handle, attrs: Vec<Attribute>) {
        self.dom.add_attrs_if_missing(target, self.counted(attrs));
    }

    fn remove_from_parent(&self, target: &Handle) {
        if let Some((parent, index)) = place_of(target) {
            parent.children.borrow_mut().remove(index);
            target.parent.set(None);
        }
    }

    fn reparent_children(&self, node: &Handle, parent: &Handle) {
        self.dom.reparent_children(node, parent);
    }

    fn is_mathml_annotation_xml_integration_point(&self, handle: &Handle) -> bool {
        self.dom.is_mathml_annotation_xml_integration_point(handle)
    }
}

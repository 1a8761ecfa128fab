//! Typed references to what a program registers for its steps.

use phalanx_base::{Code, Error, Result};
use phalanx_data::Dataset;
use phalanx_nn::metrics::Metric;
use std::marker::PhantomData;
use std::sync::Arc;

/// A reference to something that was registered with [`StepFunctions`](super::StepFunctions). It is small and can be copied
/// into closures. `K` is the kind of thing that it refers to; programs use [`StepHandle`], [`DatasetHandle`],
/// [`ResourceHandle`] and [`MetricHandle`].
pub struct Handle<K: ?Sized> {
    registry: usize,
    index: usize,
    kind: PhantomData<fn(&K)>,
}

/// A step that takes an `A` and returns an `R`.
pub type StepHandle<A, R> = Handle<fn(A) -> R>;

/// A dataset of which every worker has its own share.
pub type DatasetHandle = Handle<Dataset>;

/// A value of type `T` that every worker creates for itself.
pub type ResourceHandle<T> = Handle<PerWorker<T>>;

/// A metric that steps update and the chief reads.
pub type MetricHandle = Handle<dyn Metric>;

/// Marks the [`Handle`] of a value that every worker has its own of.
pub struct PerWorker<T>(PhantomData<T>);

impl<K: ?Sized> Clone for Handle<K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K: ?Sized> Copy for Handle<K> {}

impl<K: ?Sized> std::fmt::Debug for Handle<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Handle({})", self.index)
    }
}

/// Tells the handles of one registry from those of another one.
#[derive(Clone, Default)]
pub(crate) struct RegistryId(Arc<u8>);

impl RegistryId {
    pub(crate) fn handle<K: ?Sized>(&self, index: usize) -> Handle<K> {
        Handle { registry: self.address(), index, kind: PhantomData }
    }

    /// Returns the position that a handle of this registry refers to.
    pub(crate) fn index<K: ?Sized>(&self, handle: &Handle<K>) -> Result<usize> {
        if handle.registry == self.address() {
            return Ok(handle.index);
        }
        Err(Error::new(Code::BadSetting, "a handle belongs to other step functions")
            .because("it was returned by another StepFunctions than the one that this job runs with")
            .help("register everything with the StepFunctions that is given to run"))
    }

    /// The address of memory that the registry owns.
    fn address(&self) -> usize {
        Arc::as_ptr(&self.0) as usize
    }
}

//! Comparisons, and choices by them.

use super::{Element, GraphBuilder, Number, Output};

/// Comparisons of two tensors, element by element.
macro_rules! comparisons {
    ($($(#[$doc:meta])* $name:ident = $op:literal, $kind:ident;)*) => {
        impl GraphBuilder {$(
            $(#[$doc])*
            pub fn $name<T: $kind>(&mut self, a: Output<T>, b: Output<T>) -> Output<bool> {
                self.make($op).input(a).input(b).dtype::<T>("T").add()
            }
        )*}
    };
}

comparisons! {
    /// Whether `a` is `b`.
    equal = "Equal", Element;
    /// Whether `a` is not `b`.
    not_equal = "NotEqual", Element;
    /// Whether `a` is below `b`.
    less = "Less", Number;
    /// Whether `a` is above `b`.
    greater = "Greater", Number;
    /// Whether `a` is `b` or above it.
    greater_equal = "GreaterEqual", Number;
}

impl GraphBuilder {
    /// Logical and.
    pub fn and(&mut self, a: Output<bool>, b: Output<bool>) -> Output<bool> {
        self.make("LogicalAnd").input(a).input(b).add()
    }

    /// Logical or.
    pub fn or(&mut self, a: Output<bool>, b: Output<bool>) -> Output<bool> {
        self.make("LogicalOr").input(a).input(b).add()
    }

    /// Logical not.
    pub fn not(&mut self, x: Output<bool>) -> Output<bool> {
        self.make("LogicalNot").input(x).add()
    }

    /// Elements of `yes` where the condition holds, else of `no`.
    pub fn select<T: Element>(&mut self, condition: Output<bool>, yes: Output<T>, no: Output<T>) -> Output<T> {
        self.make("SelectV2").input(condition).input(yes).input(no).dtype::<T>("T").add()
    }

    /// The places where the condition holds: `[places, rank]`.
    pub(super) fn places(&mut self, condition: Output<bool>) -> Output<i64> {
        self.make("Where").input(condition).dtype::<bool>("T").add()
    }
}

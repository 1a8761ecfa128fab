//! The setters of builders.

/// Defines builder methods that set one field each: `name(argument: Type) { field = value }`.
#[doc(hidden)]
#[macro_export]
macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident($argument:ident: $type:ty) { $($field:ident).+ = $value:expr })*) => {$(
        $(#[$doc])*
        #[must_use]
        pub fn $name(mut self, $argument: $type) -> Self {
            self.$($field).+ = $value;
            self
        }
    )*};
}

//! The types that tensors can have in a checkpoint, by TensorFlow's numbers.

macro_rules! dtypes {
    ($($name:ident = $number:literal, $text:literal, $width:expr;)*) => {
        /// The type of a tensor's elements. All that TensorFlow saves can be read and written as bytes; what it cannot
        /// save (resources) is no type here.
        ///
        /// ```
        /// use phalanx_formats::bundle::Dtype;
        /// assert_eq!((Dtype::I64.number(), Dtype::I64.width()), (9, Some(8)));
        /// assert_eq!(Dtype::from_number(7), Some(Dtype::String));
        /// assert_eq!(Dtype::F32.to_string(), "float32");
        /// ```
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Dtype { $(#[doc = concat!("TensorFlow's `", $text, "`.")] $name = $number,)* }

        impl Dtype {
            /// Every type, by number.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The type with TensorFlow's number.
            #[must_use]
            pub fn from_number(number: i32) -> Option<Self> {
                match number { $($number => Some(Self::$name),)* _ => None }
            }

            /// How many bytes an element has; `None` where elements differ in length.
            #[must_use]
            pub fn width(self) -> Option<usize> {
                match self { $(Self::$name => $width,)* }
            }

            /// TensorFlow's name.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

dtypes! {
    F32 = 1, "float32", Some(4);
    F64 = 2, "float64", Some(8);
    I32 = 3, "int32", Some(4);
    U8 = 4, "uint8", Some(1);
    I16 = 5, "int16", Some(2);
    I8 = 6, "int8", Some(1);
    String = 7, "string", None;
    Complex64 = 8, "complex64", Some(8);
    I64 = 9, "int64", Some(8);
    Bool = 10, "bool", Some(1);
    QI8 = 11, "qint8", Some(1);
    QU8 = 12, "quint8", Some(1);
    QI32 = 13, "qint32", Some(4);
    Bf16 = 14, "bfloat16", Some(2);
    QI16 = 15, "qint16", Some(2);
    QU16 = 16, "quint16", Some(2);
    U16 = 17, "uint16", Some(2);
    Complex128 = 18, "complex128", Some(16);
    F16 = 19, "float16", Some(2);
    Variant = 21, "variant", None;
    U32 = 22, "uint32", Some(4);
    U64 = 23, "uint64", Some(8);
    F8E5M2 = 24, "float8_e5m2", Some(1);
    F8E4M3 = 25, "float8_e4m3fn", Some(1);
    I4 = 29, "int4", Some(1);
    U4 = 30, "uint4", Some(1);
}

impl Dtype {
    /// TensorFlow's number.
    #[must_use]
    pub fn number(self) -> i32 {
        self as i32
    }
}

impl std::fmt::Display for Dtype {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_and_others_are_unknown() {
        for &dtype in Dtype::ALL {
            assert_eq!(Dtype::from_number(dtype.number()), Some(dtype));
        }
        for number in [-1, 0, 20, 26, 31, 101, i32::MAX] {
            assert_eq!(Dtype::from_number(number), None);
        }
    }
}

//! The algorithms of this crate: one row for each.

/// Hands the table to a macro, behind the arguments in brackets. In the first block stand the name,
/// which is that of the feature as well, the variant of [`crate::Algorithm`], which is that of the
/// controller's as well, the constant with the usual options, their type, and the type of the
/// algorithm. In the second block stand those that [`crate::CubicOptions::rules`] chooses instead:
/// the feature, the variant of [`crate::Algorithm`], that of the controller, the type, and the
/// rules.
macro_rules! algorithms {
    ($then:ident $(, $($arguments:tt)*)?) => {
        $then! {
            [$($($arguments)*)?]
            {
                "bbr3" Bbr3 BBR3 Bbr3Options ($crate::bbr3::Bbr3<$crate::bbr3::Draft>)
                "bbr3x" Bbr3x BBR3X Bbr3xOptions ($crate::bbr3::Bbr3<$crate::bbr3::DraftAmended>)
                "bbr3-linux" Bbr3Linux BBR3_LINUX Bbr3LinuxOptions
                    ($crate::bbr3::Bbr3<$crate::bbr3::Linux>)
                "bbr3x-linux" Bbr3xLinux BBR3X_LINUX Bbr3xLinuxOptions
                    ($crate::bbr3::Bbr3<$crate::bbr3::LinuxAmended>)
                "bbr-swift" BbrSwift BBR_SWIFT BbrSwiftOptions
                    ($crate::bbr3::Bbr3<$crate::bbr3::DraftSwift>)
                "prague" Prague PRAGUE PragueOptions ($crate::prague::Prague)
                "bbr1" Bbr1 BBR1 Bbr1Options ($crate::bbr1::Bbr1)
                "cubic" Cubic CUBIC CubicOptions ($crate::cubic::Cubic)
                "reno" Reno RENO RenoOptions ($crate::reno::Reno)
            }
            {
                "cubic" Cubic LinuxCubic ($crate::cubic_linux::LinuxCubic) Linux
            }
        }
    };
}

pub(crate) use algorithms;

//! The algorithms of this crate: one row for each.

/// Hands the table to a macro, behind the arguments in brackets. In the first block stand the name,
/// which is that of the feature as well, the variant of [`crate::Algorithm`], which is that of the
/// controller's as well, and the type. In the second block stand those that
/// [`crate::Config::cubic`] chooses instead: the feature, the variant of [`crate::Algorithm`], that
/// of the controller, the type, and the rules.
macro_rules! algorithms {
    ($then:ident $(, $($arguments:tt)*)?) => {
        $then! {
            [$($($arguments)*)?]
            {
                "bbr3" Bbr3 ($crate::bbr3::Bbr3<$crate::bbr3::Draft>)
                "bbr3x" Bbr3x ($crate::bbr3::Bbr3<$crate::bbr3::DraftAmended>)
                "bbr3-linux" Bbr3Linux ($crate::bbr3::Bbr3<$crate::bbr3::Linux>)
                "bbr3x-linux" Bbr3xLinux ($crate::bbr3::Bbr3<$crate::bbr3::LinuxAmended>)
                "bbr-swift" BbrSwift ($crate::bbr3::Bbr3<$crate::bbr3::DraftSwift>)
                "prague" Prague ($crate::prague::Prague)
                "bbr1" Bbr1 ($crate::bbr1::Bbr1)
                "cubic" Cubic ($crate::cubic::Cubic)
                "reno" Reno ($crate::reno::Reno)
            }
            {
                "cubic" Cubic LinuxCubic ($crate::cubic_linux::LinuxCubic) Linux
            }
        }
    };
}

pub(crate) use algorithms;

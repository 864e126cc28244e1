//! Every setting.

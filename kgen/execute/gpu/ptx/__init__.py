"""The PTX engine: parser, semantics, translation and a warp-vector interpreter in C."""

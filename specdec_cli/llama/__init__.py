"""llama.cpp, through llama-cpp-python's C functions: the only importer of llama_cpp."""

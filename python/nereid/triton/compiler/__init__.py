"""Compiling kernels outside of launches."""
from .compiler import ASTSource, CompiledKernel, IRSource, LazyDict, compile, make_backend
from .errors import CompilationError, CompileTimeAssertionFailure, UnsupportedLanguageConstruct

__all__ = ["ASTSource", "CompilationError", "CompileTimeAssertionFailure", "CompiledKernel",
           "IRSource", "LazyDict", "UnsupportedLanguageConstruct", "compile", "make_backend"]
